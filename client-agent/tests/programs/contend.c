// Several threads store, load and add to one watched word without any order, and
// each writes down what it did. Arguments: the file, how often, and "blocked" to
// block all signals meanwhile.
#include "hooks.h"
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#define THREADS 4

static volatile long word __attribute__((aligned(64)));
static long times;
static int blocked;
static pthread_barrier_t together;
struct seen { int tid; long *values; } seen[THREADS];

static void *contends(void *argument) {
    struct seen *mine = argument;
    mine->tid = gettid();
    if (blocked) {
        sigset_t all;
        sigfillset(&all);
        pthread_sigmask(SIG_BLOCK, &all, 0);
    }
    pthread_barrier_wait(&together);
    for (long i = 0; i < times; i++) {
        long stored = (long)mine->tid << 32 | i, loaded, added = 1;
        __asm__ volatile("movq %%rax, (%%rdi)" : : "a"(stored), "D"(&word) : "memory");
        // Another thread's turn, also where there is one processor for all.
        sched_yield();
        __asm__ volatile("movq (%%rdi), %%rbx" : "=b"(loaded) : "D"(&word) : "memory");
        __asm__ volatile("lock xaddq %%rcx, (%%rdi)" : "+c"(added) : "D"(&word) : "memory");
        mine->values[3 * i] = stored;
        mine->values[3 * i + 1] = loaded;
        mine->values[3 * i + 2] = added;
    }
    return 0;
}

int main(int argc, char **argv) {
    pthread_t thread[THREADS];
    if (argc < 3) return 2;
    times = atol(argv[2]);
    blocked = argc > 3 && !strcmp(argv[3], "blocked");
    pthread_barrier_init(&together, 0, THREADS);
    __failsketch_arm(0, (uint64_t)&word, 8);
    for (int i = 0; i < THREADS; i++) {
        seen[i].values = malloc(3 * times * sizeof(long));
        pthread_create(&thread[i], 0, contends, &seen[i]);
    }
    for (int i = 0; i < THREADS; i++) pthread_join(thread[i], 0);
    FILE *file = fopen(argv[1], "w");
    if (!file) return 3;
    for (int i = 0; i < THREADS; i++)
        for (long j = 0; j < 3 * times; j++)
            fprintf(file, "%d %ld\n", seen[i].tid, seen[i].values[j]);
    return fclose(file);
}
