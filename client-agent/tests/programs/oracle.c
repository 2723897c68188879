// Programs that know the truth about their own accesses.
#define _GNU_SOURCE
#include "hooks.h"
#include <pthread.h>
#include <sched.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#define THREADS 4
#define PAIRS 30 // of threads; fewer threads than the record has slots
#define EVENTS 2000 // fewer than a slot keeps
#define LOADS 150

static volatile long tickets __attribute__((aligned(64)));
static pthread_barrier_t together;

// The clock readings that the instrumenter puts around an access.
static inline unsigned long before_access(void) {
    unsigned long low, high;
    __asm__ volatile("lfence\n\t.byte 0x3e\n\trdtsc" : "=a"(low), "=d"(high) : : "memory");
    return high << 32 | low;
}
static inline unsigned long after_store(void) {
    unsigned long low, high;
    __asm__ volatile("mfence\n\tlfence\n\t.byte 0x3e\n\trdtsc" : "=a"(low), "=d"(high) : : "memory");
    return high << 32 | low;
}

// `lock xadd` hands out the order of the accesses themselves. Two threads at a
// time meet again and again, so that both run when they contend.
static volatile long arrived;
static void *taking_tickets(void *unused) {
    for (int i = 0; i < EVENTS; i++) {
        if (i % 32 == 0) {
            long round = __atomic_fetch_add(&arrived, 1, __ATOMIC_SEQ_CST) / 2;
            while (__atomic_load_n(&arrived, __ATOMIC_SEQ_CST) < 2 * round + 2) sched_yield();
        }
        unsigned long before = before_access();
        long ticket = 1;
        __asm__ volatile("lock xaddq %0, %1" : "+r"(ticket), "+m"(tickets) : : "memory");
        __failsketch_access(1 + i / 400, 1u << 31 | 8, (uint64_t)&tickets, ticket, before, after_store());
    }
    return 0;
}

static volatile long watched __attribute__((aligned(64)));
static volatile int readers_left = THREADS - 1;
static long seen[THREADS][LOADS];
static int tids[THREADS];
static int stored;
static void *loading(void *number) {
    long me = (long)number;
    tids[me] = gettid();
    pthread_barrier_wait(&together);
    // On a busy machine all readers might be done before the writer runs.
    while (!__atomic_load_n(&stored, __ATOMIC_ACQUIRE)) sched_yield();
    for (int i = 0; i < LOADS; i++) {
        long value;
        __asm__ volatile("movq (%%rdi), %%rbx" : "=b"(value) : "D"(&watched) : "memory");
        seen[me][i] = value;
    }
    __atomic_fetch_sub(&readers_left, 1, __ATOMIC_SEQ_CST);
    return 0;
}
static void *storing(void *unused) {
    pthread_barrier_wait(&together);
    for (long value = 1; __atomic_load_n(&readers_left, __ATOMIC_SEQ_CST); value++) {
        __asm__ volatile("movq %%rax, (%%rdi)" : : "a"(value), "D"(&watched) : "memory");
        __atomic_store_n(&stored, 1, __ATOMIC_RELEASE);
    }
    return 0;
}

int main(int argc, char **argv) {
    pthread_t thread[THREADS];
    pthread_barrier_init(&together, 0, THREADS);
    int order = argc > 1 && !strcmp(argv[1], "order");
    for (int pair = 0; pair < PAIRS && order; pair++) {
        for (int i = 0; i < 2; i++) pthread_create(&thread[i], 0, taking_tickets, 0);
        for (int i = 0; i < 2; i++) pthread_join(thread[i], 0);
    }
    if (order) return 0;
    __failsketch_arm(0, (uint64_t)&watched, 8);
    for (long i = 0; i < THREADS; i++)
        pthread_create(&thread[i], 0, i ? loading : storing, (void *)i);
    for (int i = 0; i < THREADS; i++) pthread_join(thread[i], 0);
    for (int i = 1; i < THREADS; i++) {
        printf("%d", tids[i]);
        for (int at = 0; at < LOADS; at++) printf(" %ld", seen[i][at]);
        printf("\n");
    }
    return 0;
}
