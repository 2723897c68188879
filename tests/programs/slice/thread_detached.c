// A detached thread with a struct on the heap.
#include <pthread.h>
#include <stdlib.h>
struct job { int count; int label; };
static int rest;
static void *work(void *given) {
    struct job *job = given; // SLICE! NOTRACK
    rest = 100 / job->count; // FAIL TRACK
    free(job);
    return NULL;
}
int main(int argc, char **argv) {
    (void)argv;
    pthread_t a;
    struct job *job = malloc(sizeof *job); // SLICE! NOTRACK
    job->count = argc - 1; // SLICE! TRACK
    job->label = argc; // NOSLICE NOTRACK
    pthread_create(&a, NULL, work, job); // SLICE! TRACK
    pthread_detach(a); // NOSLICE NOTRACK
    return rest; // NOSLICE
}
