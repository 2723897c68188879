// Pair of thread_detached.c: the other field is used.
#include <pthread.h>
#include <stdlib.h>
struct job { int count; int label; };
static int rest;
static void *work(void *given) {
    struct job *job = given; // SLICE!
    rest = 100 / job->label; // FAIL
    free(job);
    return NULL;
}
int main(int argc, char **argv) {
    (void)argv;
    pthread_t a;
    struct job *job = malloc(sizeof *job); // SLICE!
    job->count = argc - 1; // NOSLICE
    job->label = argc; // SLICE!
    pthread_create(&a, NULL, work, job); // SLICE!
    pthread_detach(a); // NOSLICE
    return rest; // NOSLICE
}
