/* The worker MPM's queue of httpd 2.2.9, in miniature: the listener believes in
 * an idle worker that is not there.
 *
 * A worker that becomes idle raises the count of idlers atomically and, if it was
 * zero, then takes the lock and signals. Between the two the listener can use up
 * that idler, come back, find zero and wait: the signal is stale by now, but it
 * ends the wait, and the listener lowers the count below zero. From then on it
 * never waits again and pushes into a full queue, which asserts. The historical
 * fix tests the count again after each wake-up; -DFIXED builds it.
 *
 * Only the structure is the original's. The connections are numbers; serving one
 * is a computation whose length depends on the number.
 */
#include <assert.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_WORKERS 8
#define POOL_SIZE (64 * 1024)

typedef struct {
    int sd;
} fd_queue_elem_t;

typedef struct {
    fd_queue_elem_t data[MAX_WORKERS];
    int in, out;
    int nelts;
    int bounds;
    int terminated;
    pthread_mutex_t one_big_mutex;
    pthread_cond_t not_empty;
} fd_queue_t;

typedef struct {
    int32_t idlers;
    int max_idlers;
    pthread_mutex_t idlers_mutex;
    pthread_cond_t wait_for_idler;
} fd_queue_info_t;

/* The memory of one connection. */
typedef struct {
    size_t used;
    char memory[POOL_SIZE];
} pool_t;

static fd_queue_t worker_queue = {.one_big_mutex = PTHREAD_MUTEX_INITIALIZER,
                                  .not_empty = PTHREAD_COND_INITIALIZER};
static fd_queue_info_t worker_queue_info = {.idlers_mutex = PTHREAD_MUTEX_INITIALIZER,
                                            .wait_for_idler = PTHREAD_COND_INITIALIZER};
static uint64_t served[MAX_WORKERS];
static uint64_t checksums[MAX_WORKERS];

/* A worker says that it has nothing to do, and clears the memory of the connection
 * that it has served. */
static void ap_queue_info_set_idle(fd_queue_info_t *queue_info, pool_t *pool_to_recycle)
{
    int32_t prev_idlers = __atomic_fetch_add(&queue_info->idlers, 1, __ATOMIC_SEQ_CST);
    memset(pool_to_recycle->memory, 0, pool_to_recycle->used);
    pool_to_recycle->used = 0;
    if (prev_idlers == 0) {
        pthread_mutex_lock(&queue_info->idlers_mutex);
        pthread_cond_signal(&queue_info->wait_for_idler);
        pthread_mutex_unlock(&queue_info->idlers_mutex);
    }
}

/* The listener waits until a worker is idle, and takes it. */
static void ap_queue_info_wait_for_idler(fd_queue_info_t *queue_info)
{
    if (__atomic_load_n(&queue_info->idlers, __ATOMIC_SEQ_CST) == 0) {
        pthread_mutex_lock(&queue_info->idlers_mutex);
#ifdef FIXED
        while (__atomic_load_n(&queue_info->idlers, __ATOMIC_SEQ_CST) == 0)
            pthread_cond_wait(&queue_info->wait_for_idler, &queue_info->idlers_mutex);
#else
        if (__atomic_load_n(&queue_info->idlers, __ATOMIC_SEQ_CST) == 0)
            pthread_cond_wait(&queue_info->wait_for_idler, &queue_info->idlers_mutex);
#endif
        pthread_mutex_unlock(&queue_info->idlers_mutex);
    }
    __atomic_fetch_sub(&queue_info->idlers, 1, __ATOMIC_SEQ_CST);
}

static int ap_queue_full(const fd_queue_t *queue)
{
    return queue->nelts == queue->bounds;
}

static int ap_queue_empty(const fd_queue_t *queue)
{
    return queue->nelts == 0;
}

static void ap_queue_push(fd_queue_t *queue, int sd)
{
    pthread_mutex_lock(&queue->one_big_mutex);
    assert(!ap_queue_full(queue));
    queue->data[queue->in].sd = sd;
    queue->in = (queue->in + 1) % queue->bounds;
    queue->nelts++;
    pthread_cond_signal(&queue->not_empty);
    pthread_mutex_unlock(&queue->one_big_mutex);
}

/* The next connection, or -1 when there will be no more. */
static int ap_queue_pop(fd_queue_t *queue)
{
    int sd = -1;
    pthread_mutex_lock(&queue->one_big_mutex);
    while (ap_queue_empty(queue) && !queue->terminated)
        pthread_cond_wait(&queue->not_empty, &queue->one_big_mutex);
    if (!ap_queue_empty(queue)) {
        sd = queue->data[queue->out].sd;
        queue->out = (queue->out + 1) % queue->bounds;
        queue->nelts--;
    }
    pthread_mutex_unlock(&queue->one_big_mutex);
    return sd;
}

static void ap_queue_term(fd_queue_t *queue)
{
    pthread_mutex_lock(&queue->one_big_mutex);
    queue->terminated = 1;
    pthread_cond_broadcast(&queue->not_empty);
    pthread_mutex_unlock(&queue->one_big_mutex);
}

/* Serving a connection: long for some, short for most. */
static uint64_t process_socket(int sd, pool_t *pool)
{
    uint64_t sum = (uint64_t)sd;
    int steps = 100 + (int)((unsigned)sd * 2654435761u >> 22);
    for (int i = 0; i < steps; i++)
        sum = sum * 6364136223846793005ULL + 1442695040888963407ULL;
    pool->used = 1024 + (size_t)(sum >> 40) % (POOL_SIZE - 1024);
    memset(pool->memory, (int)sum, pool->used);
    return sum;
}

static void *worker_thread(void *arg)
{
    int self = (int)(intptr_t)arg;
    pool_t *pool = calloc(1, sizeof *pool);
    for (;;) {
        ap_queue_info_set_idle(&worker_queue_info, pool);
        int sd = ap_queue_pop(&worker_queue);
        if (sd < 0)
            break;
        checksums[self] ^= process_socket(sd, pool);
        served[self]++;
    }
    free(pool);
    return NULL;
}

static void *listener_thread(void *arg)
{
    int connections = *(int *)arg;
    for (int sd = 0; sd < connections; sd++) {
        ap_queue_info_wait_for_idler(&worker_queue_info);
        ap_queue_push(&worker_queue, sd);
    }
    ap_queue_term(&worker_queue);
    return NULL;
}

int main(int argc, char **argv)
{
    int workers = argc > 1 ? atoi(argv[1]) : 2;
    int connections = argc > 2 ? atoi(argv[2]) : 1000;
    if (workers < 1 || workers > MAX_WORKERS || connections < 1) {
        fprintf(stderr, "usage: fdqueue [WORKERS [CONNECTIONS]]\n");
        return 2;
    }
    worker_queue.bounds = workers;
    worker_queue_info.max_idlers = workers;
    pthread_t listener, threads[MAX_WORKERS];
    pthread_create(&listener, NULL, listener_thread, &connections);
    for (int i = 0; i < workers; i++)
        pthread_create(&threads[i], NULL, worker_thread, (void *)(intptr_t)i);
    pthread_join(listener, NULL);
    uint64_t total = 0, checksum = 0;
    for (int i = 0; i < workers; i++) {
        pthread_join(threads[i], NULL);
        total += served[i];
        checksum ^= checksums[i];
    }
    printf("%llu served, checksum %llx\n", (unsigned long long)total, (unsigned long long)checksum);
    return total == (uint64_t)connections ? 0 : 1;
}
