// A thread that starts the next one, one level down.
#include <pthread.h>
#include <stdlib.h>
static int rest;
static int visits;
static void *descend(void *given) {
    long level = (long)given; // SLICE!
    pthread_t next;
    visits++; // NOSLICE
    if (level > 3) {
        rest = (int)(100 / (level - 4)); // FAIL
        return NULL;
    }
    long below = level + 1; // SLICE!
    pthread_create(&next, NULL, descend, (void *)below); // SLICE!
    pthread_join(next, NULL); // NOSLICE
    return NULL;
}
int main(int argc, char **argv) {
    (void)argv;
    pthread_t first;
    long start = argc; // SLICE!
    pthread_create(&first, NULL, descend, (void *)start); // SLICE!
    return visits; // NOSLICE
}
