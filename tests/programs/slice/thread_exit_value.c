// pthread_exit gives the result too, from wherever it is called.
#include <pthread.h>
#include <stdlib.h>
static int label;
static void leave(long with) {
    label = 1; // NOSLICE
    pthread_exit((void *)with); // SLICE!
}
static void *work(void *given) {
    long count = (long)given; // SLICE!
    leave(count); // SLICE!
    return NULL;
}
int main(int argc, char **argv) {
    (void)argv;
    pthread_t a;
    void *result;
    long number = argc - 1; // SLICE!
    pthread_create(&a, NULL, work, (void *)number); // SLICE!
    pthread_join(a, &result); // SLICE!
    label = 2; // NOSLICE
    return 100 / (int)(long)result; // FAIL
}
