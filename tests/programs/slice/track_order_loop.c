// Pair of track_order.c: the lock is taken in a loop of its own, before; it
// would fill the record and says nothing about the tracked statement.
#include <pthread.h>
static pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;
static int level = 1;
static int label;
static int rest;
static void *lower(void *unused) {
    pthread_rwlock_wrlock(&lock); // NOSLICE TRACK
    level = 0; // SLICE! TRACK
    pthread_rwlock_unlock(&lock); // NOSLICE TRACK
    return unused; // NOSLICE NOTRACK
}
int main(int argc, char **argv) {
    (void)argv;
    pthread_t a;
    pthread_create(&a, NULL, lower, NULL); // SLICE! TRACK
    int left = argc; // NOSLICE NOTRACK
    do {
        pthread_rwlock_rdlock(&lock); // NOSLICE NOTRACK
        label++; // NOSLICE NOTRACK
        pthread_rwlock_unlock(&lock); // NOSLICE NOTRACK
    } while (left-- > 0);
    rest = 10 / level; // FAIL TRACK
    return rest; // NOSLICE NOTRACK
}
