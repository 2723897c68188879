// A thread's argument travels in a heap struct.
#include <pthread.h>
#include <stdlib.h>
struct job { int *target; int number; };
static void *work(void *given) {
    struct job *job = given; // SLICE!
    *job->target = 1; // FAIL
    return NULL;
}
static void *rest(void *given) {
    struct job *idle = given; // NOSLICE
    idle->number = 4; // NOSLICE
    return NULL;
}
int main(void) {
    pthread_t a, b;
    struct job *one = malloc(sizeof *one); // SLICE!
    struct job *two = malloc(sizeof *two); // NOSLICE
    one->target = NULL; // SLICE!
    one->number = 1; // NOSLICE
    pthread_create(&a, NULL, work, one); // SLICE!
    pthread_create(&b, NULL, rest, two); // NOSLICE
    pthread_join(a, NULL); // NOSLICE
    pthread_join(b, NULL); // NOSLICE
    return 0;
}
