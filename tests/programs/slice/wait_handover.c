// Whoever waits on the way to the failing statement was let pass by somebody: what
// the wait was about comes behind everything that the failure depends on.
#include <pthread.h>
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t somebody_idle = PTHREAD_COND_INITIALIZER;
static int idle;
static int room = 2;
static int label;
static void *worker(void *unused) {
    pthread_mutex_lock(&lock);
    idle++; // SLICE
    pthread_cond_signal(&somebody_idle);
    pthread_mutex_unlock(&lock);
    label++; // NOSLICE
    return unused; // NOSLICE
}
static void wait_for_one(void) {
    pthread_mutex_lock(&lock);
    if (idle == 0) // SLICE
        pthread_cond_wait(&somebody_idle, &lock); // SLICE
    idle--; // SLICE
    pthread_mutex_unlock(&lock);
}
static void wait_for_nothing(void) {
    pthread_mutex_lock(&lock);
    label = 1; // NOSLICE
    pthread_mutex_unlock(&lock);
}
int main(void) {
    pthread_t a;
    pthread_create(&a, NULL, worker, NULL);
    wait_for_nothing(); // NOSLICE
    wait_for_one();
    room--; // SLICE!
    int share = 10 / room; // FAIL
    pthread_join(a, NULL);
    return share + label; // NOSLICE
}
