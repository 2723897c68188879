// Uses memory that it has freed, or does not, as its first argument says.
#define _GNU_SOURCE
#include "hooks.h"
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

struct item {
    struct item *links[8];
    long value;
};

#ifdef OWN_ALLOCATOR
static char memory[1 << 24] __attribute__((aligned(16)));
static size_t used;
void *malloc(size_t size) {
    size_t from = __atomic_fetch_add(&used, (size + 31) & ~15ul, __ATOMIC_RELAXED);
    return memory + from + 16;
}
void free(void *block) { (void)block; }
void *calloc(size_t count, size_t size) { return malloc(count * size); }
void *realloc(void *block, size_t size) {
    void *moved = malloc(size);
    return block ? memcpy(moved, block, size) : moved;
}
#endif

static unsigned long now(void) {
    __builtin_ia32_lfence();
    unsigned long counter = __builtin_ia32_rdtsc();
    __builtin_ia32_lfence();
    return counter;
}

static long volatile sink;
__attribute__((noinline)) static void look_at(struct item *item) {
    unsigned long before = now();
    sink = item->value;
    __failsketch_access(1, 8, (unsigned long)&item->value, 0, before, now());
}

__attribute__((noinline)) static void discard(struct item *item) {
    free(item);
    sink = 1;
}
static void *discarding(void *item) {
    discard(item);
    return 0;
}
static void discard_in_thread(struct item *item) {
    pthread_t thread;
    pthread_create(&thread, 0, discarding, item);
    pthread_join(thread, 0);
}

static struct item *new_item(void) {
    struct item *item = malloc(sizeof *item);
    memset(item, 0x55, sizeof *item);
    return item;
}

static void *churning(void *unused) {
    for (int i = 0; i < 100; i++) {
        char *block = malloc(16 + i * 37 % 5000);
        block = realloc(block, 32 + i * 53 % 9000);
        block[0] = 1;
        free(block);
    }
    return unused;
}
static long volatile handled;
static void on_alarm(int signal) {
    free(malloc(24));
    handled = signal;
}
static int churn(void) {
    signal(SIGPROF, on_alarm);
    struct itimerval often = {{0, 1000}, {0, 1000}};
    setitimer(ITIMER_PROF, &often, 0);
    // The handler runs in the middle of what is no call of the allocator.
    for (unsigned long until = now() + 200000000; now() < until;) {}
    often.it_value.tv_usec = 0;
    setitimer(ITIMER_PROF, &often, 0);
    pthread_attr_t small;
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 65536);
    for (int round = 0; round < 20; round++) {
        pthread_t threads[50];
        for (int i = 0; i < 50; i++) pthread_create(&threads[i], &small, churning, 0);
        if (round % 5 == 0) {
            pid_t child = fork();
            if (child == 0) {
                churning(0);
                _exit(7);
            }
            int status;
            waitpid(child, &status, 0);
            printf("child %d\n", WEXITSTATUS(status));
        }
        for (int i = 0; i < 50; i++) pthread_join(threads[i], 0);
    }
    void *aligned = 0;
    int refused = posix_memalign(&aligned, 3, 64);
    int done = posix_memalign(&aligned, 256, 64);
    printf("%d %d %d %d\n", refused, done, (int)((unsigned long)aligned % 256),
           realloc(aligned, (size_t)-1) == 0);
    void *others[] = {aligned_alloc(64, 128), memalign(128, 32), valloc(10),
                      reallocarray(0, 3, 5), calloc(3, 5)};
    for (int i = 0; i < 5; i++) free(others[i]);
    free(aligned);
    free(0);
    return 3;
}

int main(int argc, char **argv) {
    const char *how = argc > 1 ? argv[1] : "";
    setvbuf(stdout, 0, _IONBF, 0);
    if (!strcmp(how, "churn")) return churn();
    struct item *item = new_item();
    if (!strcmp(how, "used")) {
        discard_in_thread(item);
        look_at(item);
    } else if (!strcmp(how, "fixed")) {
        look_at(item);
        discard_in_thread(item);
    } else if (!strcmp(how, "reused")) {
        discard(item);
        struct item *again = new_item();
        look_at(again);
        printf("%d\n", again == item);
    } else if (!strcmp(how, "grown")) {
        // Stays where it is: nothing comes after it.
        item = realloc(item, sizeof *item + 16);
        look_at(item);
    } else if (!strcmp(how, "inside")) {
        // Another block's memory, of another size, and begun elsewhere.
        struct item *rows[64];
        for (int i = 0; i < 64; i++) rows[i] = malloc(sizeof *item);
        for (int i = 0; i < 64; i++) free(rows[i]);
        char *whole = malloc(64 * sizeof *item);
        for (int i = 0; i < 60; i++) look_at((struct item *)(whole + i * sizeof *item));
        free(whole);
    } else if (!strcmp(how, "crash")) {
        struct item *volatile kept = item;
        discard_in_thread(item);
        sink = kept->links[4]->value;
    }
    return 0;
}
