// Pair of thread_argument.c: the struct lies on the creator's stack.
#include <pthread.h>
#include <stdlib.h>
struct job { int *target; int number; };
static void *work(void *given) {
    struct job *job = given; // SLICE!
    *job->target = 1; // FAIL
    return NULL;
}
int main(void) {
    pthread_t a;
    struct job one;
    struct job unseen;
    one.target = NULL; // SLICE!
    unseen.target = &one.number; // NOSLICE
    pthread_create(&a, NULL, work, &one); // SLICE!
    pthread_join(a, NULL); // NOSLICE
    return 0;
}
