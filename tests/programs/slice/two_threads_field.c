// Two threads share a field; a third touches another field.
#include <pthread.h>
#include <stdlib.h>
struct session { int *band; int rate; };
static struct session session;
static void *reader(void *given) {
    struct session *s = given; // SLICE! NOTRACK
    return (void *)(long)*s->band; // FAIL
}
static void *writer(void *given) {
    struct session *s = given; // SLICE! NOTRACK
    s->band = malloc(sizeof(int)); // SLICE! TRACK
    return NULL;
}
static void *tuner(void *given) {
    struct session *s = given; // NOSLICE
    s->rate = 5; // NOSLICE NOTRACK
    return NULL;
}
int main(void) {
    pthread_t a, b, c;
    pthread_create(&a, NULL, reader, &session); // SLICE! TRACK
    pthread_create(&b, NULL, writer, &session); // SLICE!
    pthread_create(&c, NULL, tuner, &session); // NOSLICE TRACK
    return 0;
}
