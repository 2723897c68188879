// Pair of callback_once.c: the initialiser sets something else.
#include <pthread.h>
static pthread_once_t once = PTHREAD_ONCE_INIT;
static int limit = 1;
static int label;
static void prepare(void) {
    label = 1; // NOSLICE
}
int main(int argc, char **argv) {
    (void)argv;
    limit = argc - 1; // SLICE!
    pthread_once(&once, prepare); // NOSLICE
    return 10 / limit; // FAIL
}
