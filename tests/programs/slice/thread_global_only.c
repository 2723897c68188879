// A thread without an argument: its creation still decides that it runs.
#include <pthread.h>
#include <stdlib.h>
static int *shared;
static int done;
static void *work(void *given) {
    (void)given;
    *shared = 1; // FAIL TRACK
    done = 1; // NOSLICE NOTRACK
    return NULL;
}
int main(int argc, char **argv) {
    (void)argv;
    pthread_t a;
    shared = NULL; // SLICE! TRACK
    if (argc < 9) // SLICE! TRACK
        pthread_create(&a, NULL, work, NULL); // SLICE! TRACK
    return 0;
}
