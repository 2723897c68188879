// The start routine is an argument of a function that starts threads. Slices
// do not tell calls of one function apart, so the second start is left open;
// what the other thread does is not.
#include <pthread.h>
#include <stdlib.h>
static int rest;
static void *work(void *given) {
    rest = 10 / *(int *)given; // FAIL
    return NULL;
}
static void *idle(void *given) {
    rest = given != NULL; // NOSLICE
    return NULL;
}
static void spawn(void *(*routine)(void *), void *with) {
    pthread_t a;
    pthread_create(&a, NULL, routine, with); // SLICE!
    pthread_detach(a); // NOSLICE
}
int main(int argc, char **argv) {
    (void)argv;
    int number = argc - 1; // SLICE!
    spawn(work, &number); // SLICE!
    spawn(idle, NULL);
    return rest; // NOSLICE
}
