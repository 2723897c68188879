// Who wakes a thread that waited before it failed, and why it did.
#include <pthread.h>
struct box { pthread_mutex_t lock; pthread_cond_t filled; pthread_cond_t emptied; };
static struct box made = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, PTHREAD_COND_INITIALIZER};
static struct box *box;
static int letters;
static int label;
static void post(int open) {
    if (open > 2) // SLICE! WITHIN 8
        pthread_cond_signal(&box->filled); // SLICE! WITHIN 7
}
static void *clean(void *unused) {
    label++; // NOSLICE
    pthread_cond_signal(&box->emptied); // NOSLICE
    return unused;
}
static void *carrier(void *unused) {
    post(letters); // SLICE!
    return unused;
}
int main(void) {
    pthread_t a, b;
    box = &made;
    pthread_create(&a, NULL, carrier, NULL);
    pthread_create(&b, NULL, clean, NULL); // NOSLICE
    pthread_mutex_lock(&box->lock);
    pthread_cond_wait(&box->filled, &box->lock); // SLICE! WITHIN 6
    pthread_mutex_unlock(&box->lock);
    return 10 / letters; // FAIL
}
