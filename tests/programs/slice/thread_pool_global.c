// Pair of thread_pool.c: the task ignores its argument and uses a global.
#include <pthread.h>
#include <stdlib.h>
struct task { void (*run)(void *); void *with; };
static struct task next;
static int rest;
static int divisor = 1;
static void divide(void *given) {
    rest = 100 / divisor; // FAIL
}
static void *worker(void *unused) {
    next.run(next.with); // SLICE!
    return NULL;
}
int main(int argc, char **argv) {
    (void)argv;
    pthread_t a;
    int number = argc - 1; // NOSLICE
    next.run = divide; // SLICE!
    next.with = &number; // NOSLICE
    divisor = argc - 1; // SLICE!
    pthread_create(&a, NULL, worker, NULL); // SLICE!
    pthread_join(a, NULL); // NOSLICE
    return rest; // NOSLICE
}
