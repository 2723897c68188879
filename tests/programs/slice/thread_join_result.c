// What a thread returns comes out of pthread_join.
#include <pthread.h>
#include <stdlib.h>
static int label;
static void *work(void *given) {
    int *count = given; // SLICE! NOTRACK
    *count = label; // NOSLICE NOTRACK
    return count; // SLICE!
}
static void *idle(void *given) {
    return given; // NOSLICE NOTRACK
}
int main(void) {
    pthread_t a, b;
    void *result;
    void *ignored;
    int *made = calloc(1, sizeof *made); // SLICE! NOTRACK
    int *other = malloc(sizeof *other); // NOSLICE
    pthread_create(&a, NULL, work, made); // SLICE! TRACK
    pthread_create(&b, NULL, idle, other); // NOSLICE
    pthread_join(b, &ignored); // NOSLICE TRACK
    pthread_join(a, &result); // SLICE! TRACK
    return 100 / (int)(long)result; // FAIL
}
