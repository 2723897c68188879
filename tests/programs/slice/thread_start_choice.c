// The start routine is chosen: both may run, and what chooses is in the slice.
#include <pthread.h>
#include <stdlib.h>
static int rest;
static void *fast(void *given) {
    rest = 10 / *(int *)given; // FAIL
    return NULL;
}
static void *slow(void *given) {
    rest = given != NULL; // NOSLICE
    return NULL;
}
int main(int argc, char **argv) {
    (void)argv;
    pthread_t a;
    int number = argc - 1; // SLICE!
    int label = argc + 1; // NOSLICE
    void *(*start)(void *) = argc > 2 ? fast : slow; // SLICE!
    pthread_create(&a, NULL, start, &number); // SLICE!
    return label; // NOSLICE
}
