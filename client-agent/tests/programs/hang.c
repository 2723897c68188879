/* Programs that stand still: each in another way. */
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/select.h>
#include <unistd.h>

static pthread_mutex_t left = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t right = PTHREAD_MUTEX_INITIALIZER;
static pthread_barrier_t both;

__attribute__((noinline)) static void take_right(void) { pthread_mutex_lock(&right); }
__attribute__((noinline)) static void take_left(void) { pthread_mutex_lock(&left); }

static void *other_order(void *unused) {
    pthread_mutex_lock(&right);
    pthread_barrier_wait(&both);
    take_left();
    return unused;
}

static void *wait_for_input(void *unused) {
    char byte;
    return read(0, &byte, 1) == 1 ? unused : NULL;
}

int main(int count, char **words) {
    const char *how = count > 1 ? words[1] : "deadlock";
    pthread_t thread;
    if (!strcmp(how, "deadlock")) {
        pthread_barrier_init(&both, NULL, 2);
        pthread_create(&thread, NULL, other_order, NULL);
        pthread_mutex_lock(&left);
        pthread_barrier_wait(&both);
        take_right();
    } else if (!strcmp(how, "service")) {
        /* One thread waits for the other, which waits for the world. */
        pthread_create(&thread, NULL, wait_for_input, NULL);
        pthread_join(thread, NULL);
        puts("served");
    } else {
        /* Busy, then done: never a hang. */
        volatile unsigned long turns = 0;
        while (turns < 800000000UL) turns++;
    }
    return 0;
}
