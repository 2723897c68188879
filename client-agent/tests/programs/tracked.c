// Calls the hooks by hand, as its first argument says.
#define _GNU_SOURCE
#include "hooks.h"
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static void record(long count) {
    // No site so often that its events would be thinned out.
    for (long i = 0; i < count; i++)
        __failsketch_access(7 + i, 1u << 31 | 4, 0x1000 + i, i, 10 * i, 10 * i + 5);
}
static void *recording_thread(void *count) {
    record((long)count);
    return 0;
}
static void threads(int n, char **counts) {
    // One after the other, so that the order of slots is known.
    for (int i = 0; i < n; i++) {
        pthread_t thread;
        pthread_create(&thread, 0, recording_thread, (void *)atol(counts[i]));
        pthread_join(thread, 0);
    }
}

static pthread_barrier_t together;
static void *waiting_thread(void *unused) {
    record(1);
    pthread_barrier_wait(&together);
    return 0;
}
static void threads_at_once(int n) {
    pthread_t thread[n];
    pthread_barrier_init(&together, 0, n);
    pthread_attr_t small;
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 65536);
    for (int i = 0; i < n; i++) pthread_create(&thread[i], &small, waiting_thread, 0);
    for (int i = 0; i < n; i++) pthread_join(thread[i], 0);
}

static volatile long first __attribute__((aligned(8)));
static volatile long untouched[2] __attribute__((aligned(8)));
static volatile int second __attribute__((aligned(8)));
static pthread_barrier_t barrier;
static void store(volatile long *at, long value) {
    __asm__ volatile("movq %%rax, (%%rdi)" : : "a"(value), "D"(at) : "memory");
}
static void *storing_thread(void *unused) {
    printf("%d %lu %lu\n", gettid(), (unsigned long)&first, (unsigned long)&second);
    for (long i = 0; i < 40; i++) store(&first, 1000 + i);
    pthread_barrier_wait(&barrier);
    // Now slot 1 is aimed at `second`, by a thread that came before this wait.
    pthread_barrier_wait(&barrier);
    for (int i = 0; i < 10; i++) {
        int seen;
        __asm__ volatile("movl (%%rdi), %%ebx" : "=b"(seen) : "D"(&second) : "memory");
    }
    return 0;
}

// A function of which a clone exists.
static volatile unsigned long done;
__attribute__((noinline)) static void worked_on(long i) {
    if (CLONE_IS_TO_RUN) {
        unsigned long before = __builtin_ia32_rdtsc();
        done += i;
        __failsketch_access(3, 1u << 31 | 8, (uint64_t)&done, i, before, __builtin_ia32_rdtsc());
    } else {
        done += i;
    }
}
static double cpu_seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return t.tv_sec + t.tv_nsec / 1e9;
}

#ifndef STUBS
extern void __failsketch_constructor(int argc, char **argv, char **envp);
#endif
static void in_handler(int signal) { __failsketch_branch(2, 1); }

int main(int argc, char **argv) {
    const char *what = argc > 1 ? argv[1] : "";
    if (!strcmp(what, "kinds")) {
        __failsketch_access(1, 8, 0x2000, 42, 100, 200);
        __failsketch_access(2, 1u << 31 | 2, 0x3000, 43, 300, 400);
        __failsketch_branch(3, 5);
        __failsketch_call(4);
        __failsketch_sync_begin(5, 0x4000);
        __failsketch_sync_end(6, 0x4000, 16, 77);
    }
    if (!strcmp(what, "threads")) threads(argc - 2, argv + 2);
    if (!strcmp(what, "at-once")) threads_at_once(atoi(argv[2]));
    if (!strcmp(what, "storm")) {
        // Many threads, one after the other.
        for (long i = atol(argv[2]); i > 0; i--) {
            pthread_t thread;
            pthread_create(&thread, 0, recording_thread, (void *)2);
            pthread_join(thread, 0);
        }
    }
    if (!strcmp(what, "hot")) {
        // One site in a hot loop, then another.
        for (long i = 0; i < 100000; i++)
            __failsketch_access(7, 1u << 31 | 4, 0x1000, i < 50000 ? i : -i, 10 * i + 1, 10 * i + 5);
        __failsketch_access(8, 4, 0x2000, 42, 1000001, 1000002);
    }
    if (!strcmp(what, "edges")) {
        // A short prologue, then a hot loop, then the end.
        __failsketch_branch(10, 1);
        for (int i = 0; i < 100000; i++) __failsketch_branch(11, i == 99999);
        __failsketch_call(12);
    }
    if (!strcmp(what, "branches"))
        for (long i = atol(argv[2]); i > 0; i--) __failsketch_branch(10, 1);
    if (!strcmp(what, "fork")) {
        record(3);
        if (fork() == 0) { record(500); __failsketch_arm(0, (uint64_t)&first, 8); _exit(0); }
        wait(0);
        record(2);
    }
    if (!strcmp(what, "handler")) {
        signal(SIGUSR1, in_handler);
        __failsketch_branch(1, 0);
        raise(SIGUSR1);
        __failsketch_branch(1, 0);
    }
    if (!strcmp(what, "watch")) {
        pthread_t thread;
        pthread_barrier_init(&barrier, 0, 2);
        __failsketch_arm(0, (uint64_t)&first, 8);
        pthread_create(&thread, 0, storing_thread, 0);
        pthread_barrier_wait(&barrier);
        __failsketch_arm(0, (uint64_t)&first, 8);
        __failsketch_arm(1, (uint64_t)&second, 4);
        pthread_barrier_wait(&barrier);
        pthread_join(thread, 0);
    }
    if (!strcmp(what, "switches"))
        for (int i = atoi(argv[2]); i > 0; i--) usleep(1);
    if (!strcmp(what, "aims"))
        // Two words that nobody touches, in turn.
        for (long i = atol(argv[2]); i > 0; i--) __failsketch_arm(0, (uint64_t)&untouched[i % 2], 8);
    if (!strcmp(what, "watch-and-crash")) {
        __failsketch_arm(2, (uint64_t)&first, 8);
        store(&first, 5);
        __failsketch_call(9);
        *(volatile int *)16 = 1;
    }
    if (!strcmp(what, "hot-loop"))
        while (cpu_seconds() < atof(argv[2]))
            for (int i = 0; i < 100000; i++) worked_on(i);
    if (!strcmp(what, "loop"))
        for (long n = atol(argv[2]); n > 0; n--)
            for (int i = 0; i < 100000; i++) worked_on(i);
    if (!strcmp(what, "hammer-while-working")) {
        __failsketch_arm(0, (uint64_t)&first, 8);
        for (long n = atol(argv[2]); n > 0; n--) {
            for (int i = 0; i < 10000; i++) done += i;
            store(&first, n);
        }
    }
    if (!strcmp(what, "hammer-for")) {
        __failsketch_arm(0, (uint64_t)&first, 8);
        while (cpu_seconds() < atof(argv[2]))
            for (int i = 0; i < 100; i++) store(&first, i);
    }
    if (!strcmp(what, "orphan")) {
        // Tells how few ticks a store to the watched word takes in the end.
        __failsketch_arm(0, (uint64_t)&first, 8);
        while (cpu_seconds() < 5)
            for (int i = 0; i < 1000; i++) worked_on(i);
        unsigned long least = ~0ul;
        for (int i = 0; i < 1000; i++) {
            unsigned long from = __builtin_ia32_rdtsc();
            store(&first, i);
            unsigned long took = __builtin_ia32_rdtsc() - from;
            if (took < least) least = took;
        }
        FILE *file = fopen(argv[2], "w");
        fprintf(file, "%d %lu\n", (int)__failsketch_enabled, least);
        fclose(file);
    }
    if (!strcmp(what, "fork-enabled")) {
        // Exit status: what a forked child finds at the entry of a function.
        if (!CLONE_IS_TO_RUN) return 70;
        int status = 0;
        if (fork() == 0) _exit(CLONE_IS_TO_RUN ? 71 : 0);
        wait(&status);
        return WEXITSTATUS(status);
    }
    if (!strcmp(what, "hammer")) {
        __failsketch_arm(0, (uint64_t)&first, 8);
        for (long i = 0; i < 20000; i++) store(&first, i);
    }
    if (!strcmp(what, "close-all")) {
        close_range(3, ~0u, 0);
        __failsketch_arm(0, (uint64_t)&first, 8);
        store(&first, 5);
        record(4);
    }
#ifndef STUBS
    if (!strcmp(what, "no-arguments")) {
        // As a C library that calls constructors without arguments: what is in
        // the registers is anything.
        __failsketch_constructor(3, (char **)16, (char **)8);
        __failsketch_constructor(-1, argv, (char **)8);
        __failsketch_constructor(argc, 0, argv + argc + 1);
        __failsketch_constructor(argc + 5, (char **)&first, (char **)24);
        record(6);
    }
#endif
    if (!strcmp(what, "crash-after")) {
        record(atol(argv[2]));
        *(volatile int *)16 = 1;
    }
    return argc > 9 ? 1 : 0;
}
