// The destructor of thread-specific data gets what was set for its key.
#include <pthread.h>
#include <stdlib.h>
static pthread_key_t key;
static pthread_key_t spare;
static int rest;
static void release(void *given) {
    int *count = given; // SLICE!
    rest = 100 / *count; // FAIL
}
static void *work(void *unused) {
    int *mine = unused; // SLICE!
    int *other = malloc(sizeof *other); // NOSLICE
    pthread_setspecific(key, mine); // SLICE!
    pthread_setspecific(spare, other); // NOSLICE
    return NULL;
}
int main(int argc, char **argv) {
    (void)argv;
    pthread_t thread;
    int number = argc - 1; // SLICE!
    pthread_key_create(&key, release); // SLICE!
    pthread_key_create(&spare, free); // NOSLICE
    pthread_create(&thread, NULL, work, &number); // SLICE!
    pthread_join(thread, NULL); // NOSLICE
    return 0;
}
