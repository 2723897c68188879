// Pair of callback_key_destructor.c: the value is asked for, nothing is destroyed.
#include <pthread.h>
#include <stdlib.h>
static pthread_key_t key;
static pthread_key_t spare;
static void keep(int *count, int *other) {
    pthread_setspecific(key, count); // SLICE!
    pthread_setspecific(spare, other); // NOSLICE
}
static int share(void) {
    int *count = pthread_getspecific(key); // SLICE!
    return 100 / *count; // FAIL
}
int main(int argc, char **argv) {
    (void)argv;
    int number = argc - 1; // SLICE!
    int other = argc + 1; // NOSLICE
    pthread_key_create(&spare, free); // NOSLICE
    keep(&number, &other); // SLICE!
    return share(); // SLICE!
}
