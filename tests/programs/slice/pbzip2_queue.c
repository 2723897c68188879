// The pbzip2 failure: the queue's mutex is taken away under the consumer.
// Ground truth in order of distance: unlock, argument, creation, initialisation.
// The waiting loop is left open: it decides when what follows runs, not whether.
#include <pthread.h>
#include <stdlib.h>
typedef struct {
    pthread_mutex_t *mut;
    pthread_cond_t *not_empty;
    long head, tail;
    int empty;
} queue;
static int all_done;
static long consumed;
static queue *queue_init(void) {
    queue *q = malloc(sizeof *q); // SLICE! NOTRACK
    q->empty = 1;
    q->head = 0;
    q->mut = malloc(sizeof *q->mut); // SLICE! TRACK
    pthread_mutex_init(q->mut, NULL); // NOSLICE
    return q; // SLICE! NOTRACK
}
static void queue_delete(queue *q) {
    pthread_mutex_destroy(q->mut); // NOSLICE NOTRACK
    free(q->mut); // NOSLICE
    q->mut = NULL; // SLICE! TRACK
}
static void *consumer(void *arg) {
    queue *fifo = arg; // SLICE! NOTRACK ORDER 2
    for (;;) {
        pthread_mutex_lock(fifo->mut); // NOSLICE TRACK
        while (fifo->empty && !all_done) {
            pthread_cond_wait(fifo->not_empty, fifo->mut); // NOSLICE NOTRACK
        }
        if (all_done) { // SLICE! TRACK
            pthread_mutex_unlock(fifo->mut); // FAIL TRACK ORDER 1
            return NULL;
        }
        consumed++; // NOSLICE NOTRACK
        pthread_mutex_unlock(fifo->mut); // NOSLICE NOTRACK
    }
}
int main(void) {
    pthread_t thread;
    queue *fifo = queue_init(); // SLICE! ORDER 4
    pthread_create(&thread, NULL, consumer, fifo); // SLICE! TRACK ORDER 3
    all_done = 1; // SLICE! TRACK
    queue_delete(fifo); // SLICE! TRACK
    return (int)consumed; // NOSLICE
}
