// Pair of cleanup_push.c: in C++ the handler is an object with a destructor.
#include <pthread.h>
#include <stdlib.h>
static int rest;
static void release(void *given) {
    int *count = static_cast<int *>(given); // SLICE!
    rest = 100 / *count; // FAIL
}
static void *work(void *given) {
    pthread_cleanup_push(release, given); // SLICE!
    rest = 1; // NOSLICE
    pthread_cleanup_pop(1); // SLICE!
    return nullptr;
}
static void *idle(void *given) {
    rest = given != nullptr; // NOSLICE
    return nullptr;
}
int main(int argc, char **) {
    pthread_t a, b;
    int number = argc - 1; // SLICE!
    int other = argc; // NOSLICE
    pthread_create(&a, nullptr, work, &number); // SLICE!
    pthread_create(&b, nullptr, idle, &other); // NOSLICE
    pthread_join(a, nullptr); // NOSLICE
    return 0;
}
