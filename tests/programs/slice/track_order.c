// A lock that is held around tracked statements orders threads: it gets a site,
// though it is no part of the slice. One of another function does not.
#include <pthread.h>
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int level = 1;
static int label;
static int rest;
static void *lower(void *unused) {
    pthread_mutex_lock(&lock); // NOSLICE TRACK
    level = 0; // SLICE! TRACK
    pthread_mutex_unlock(&lock); // NOSLICE TRACK
    return unused; // NOSLICE NOTRACK
}
static void name(int to) {
    pthread_mutex_lock(&lock); // NOSLICE NOTRACK
    label = to; // NOSLICE NOTRACK
    pthread_mutex_unlock(&lock); // NOSLICE NOTRACK
}
int main(int argc, char **argv) {
    (void)argv;
    pthread_t a;
    pthread_create(&a, NULL, lower, NULL); // SLICE! TRACK
    name(argc); // NOSLICE NOTRACK
    pthread_mutex_lock(&lock); // NOSLICE TRACK
    rest = 10 / level; // FAIL TRACK
    pthread_mutex_unlock(&lock); // NOSLICE TRACK
    pthread_join(a, NULL); // NOSLICE TRACK
    return label; // NOSLICE NOTRACK
}
