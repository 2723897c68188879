// Pair of thread_join_result.c: the thread returns nothing of its argument.
#include <pthread.h>
#include <stdlib.h>
static int label;
static void *work(void *given) {
    label = given != NULL; // NOSLICE
    return NULL; // SLICE!
}
int main(void) {
    pthread_t a;
    void *result;
    int *made = calloc(1, sizeof *made); // NOSLICE
    pthread_create(&a, NULL, work, made); // SLICE!
    pthread_join(a, &result); // SLICE!
    return 100 / (int)(long)result; // FAIL
}
