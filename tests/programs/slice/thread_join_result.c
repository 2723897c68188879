// What a thread returns comes out of pthread_join.
#include <pthread.h>
#include <stdlib.h>
static int label;
static void *work(void *given) {
    int *count = given; // SLICE!
    *count = label; // NOSLICE
    return count; // SLICE!
}
static void *idle(void *given) {
    return given; // NOSLICE
}
int main(void) {
    pthread_t a, b;
    void *result;
    void *ignored;
    int *made = calloc(1, sizeof *made); // SLICE!
    int *other = malloc(sizeof *other); // NOSLICE
    pthread_create(&a, NULL, work, made); // SLICE!
    pthread_create(&b, NULL, idle, other); // NOSLICE
    pthread_join(b, &ignored); // NOSLICE
    pthread_join(a, &result); // SLICE!
    return 100 / (int)(long)result; // FAIL
}
