// A cleanup handler of a thread, in the form that C expands to.
#include <pthread.h>
#include <stdlib.h>
static int rest;
static void release(void *given) {
    int *count = given; // SLICE!
    rest = 100 / *count; // FAIL
}
static void quiet(void *given) {
    rest = given != NULL; // NOSLICE
}
static void *work(void *given) {
    pthread_cleanup_push(release, given); // SLICE!
    rest = 1; // NOSLICE
    pthread_cleanup_pop(1); // SLICE!
    return NULL;
}
static void *idle(void *given) {
    pthread_cleanup_push(quiet, given); // NOSLICE
    rest = 2; // NOSLICE
    pthread_cleanup_pop(1); // NOSLICE
    return NULL;
}
int main(int argc, char **argv) {
    (void)argv;
    pthread_t a, b;
    int number = argc - 1; // SLICE!
    int other = argc; // NOSLICE
    pthread_create(&a, NULL, work, &number); // SLICE!
    pthread_create(&b, NULL, idle, &other); // NOSLICE
    pthread_join(a, NULL); // NOSLICE
    return 0;
}
