// pthread_once runs the initialiser that sets the divisor.
#include <pthread.h>
static pthread_once_t once = PTHREAD_ONCE_INIT;
static int limit = 1;
static int label;
static void prepare(void) {
    limit = 0; // SLICE!
    label = 1; // NOSLICE
}
int main(void) {
    pthread_once(&once, prepare); // SLICE!
    return 10 / limit; // FAIL
}
