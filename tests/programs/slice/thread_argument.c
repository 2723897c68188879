// A thread's argument travels in a heap struct.
#include <pthread.h>
#include <stdlib.h>
struct job { int *target; int number; };
static void *work(void *given) {
    struct job *job = given; // SLICE! NOTRACK
    *job->target = 1; // FAIL TRACK
    return NULL;
}
static void *rest(void *given) {
    struct job *idle = given; // NOSLICE
    idle->number = 4; // NOSLICE NOTRACK
    return NULL;
}
int main(void) {
    pthread_t a, b;
    struct job *one = malloc(sizeof *one); // SLICE! NOTRACK
    struct job *two = malloc(sizeof *two); // NOSLICE
    one->target = NULL; // SLICE! TRACK
    one->number = 1; // NOSLICE NOTRACK
    pthread_create(&a, NULL, work, one); // SLICE! TRACK
    pthread_create(&b, NULL, rest, two); // NOSLICE TRACK
    pthread_join(a, NULL); // NOSLICE TRACK
    pthread_join(b, NULL); // NOSLICE TRACK
    return 0;
}
