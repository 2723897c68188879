// A thread waits for a lock of one name: who else takes it comes right behind.
// HANG
#include <pthread.h>
struct account { pthread_mutex_t lock; int amount; };
static struct account made[2] = {{PTHREAD_MUTEX_INITIALIZER, 1}, {PTHREAD_MUTEX_INITIALIZER, 2}};
static struct account *one, *two;
static pthread_mutex_t other = PTHREAD_MUTEX_INITIALIZER;
static int label;
static void take(pthread_mutex_t *which) {
    pthread_mutex_lock(which);
}
static void *audit(void *unused) {
    take(&two->lock); // SLICE! WITHIN 6
    pthread_mutex_lock(&one->lock); // FAIL
    return unused;
}
static void *describe(void *unused) {
    pthread_mutex_lock(&other); // NOSLICE
    label++; // NOSLICE
    pthread_mutex_unlock(&other);
    return unused;
}
int main(void) {
    pthread_t a, b;
    one = &made[0];
    two = &made[1];
    pthread_create(&a, NULL, audit, NULL); // SLICE!
    pthread_create(&b, NULL, describe, NULL);
    take(&one->lock); // SLICE! WITHIN 6
    take(&two->lock);
    pthread_join(a, NULL);
    return label; // NOSLICE
}
