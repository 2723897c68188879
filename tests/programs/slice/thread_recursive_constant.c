// Pair of thread_recursive.c: the level is not handed down.
#include <pthread.h>
#include <stdlib.h>
static int rest;
static int limit = 4;
static void *descend(void *given) {
    long level = limit; // SLICE!
    pthread_t next;
    long below = (long)given + 1; // NOSLICE
    rest = (int)(100 / (level - 4)); // FAIL
    pthread_create(&next, NULL, descend, (void *)below); // SLICE!
    pthread_join(next, NULL); // NOSLICE
    return NULL;
}
int main(int argc, char **argv) {
    (void)argv;
    pthread_t first;
    long start = argc; // NOSLICE
    limit = argc + 3; // SLICE!
    pthread_create(&first, NULL, descend, (void *)start); // SLICE!
    return rest; // NOSLICE
}
