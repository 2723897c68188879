// The start routine comes out of a struct's field.
#include <pthread.h>
#include <stdlib.h>
struct service { void *(*run)(void *); void *(*stop)(void *); int level; };
static int rest;
static void *serve(void *given) {
    struct service *self = given; // SLICE!
    rest = 10 / self->level; // FAIL
    return NULL;
}
static void *halt(void *given) {
    rest = given != NULL; // NOSLICE
    return NULL;
}
static void begin(struct service *service) {
    pthread_t a;
    pthread_create(&a, NULL, service->run, service); // SLICE!
    service->stop(service); // NOSLICE
}
int main(int argc, char **argv) {
    (void)argv;
    struct service *made = malloc(sizeof *made); // SLICE!
    made->run = serve; // SLICE!
    made->stop = halt; // NOSLICE
    made->level = argc - 1; // SLICE!
    begin(made); // SLICE!
    return rest; // NOSLICE
}
