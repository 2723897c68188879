/* A thread pool whose users recycle a request when the queue is empty, not when it
 * has been served.
 *
 * The front end fills requests and submits them to a queue that workers empty. At
 * the end of a batch it waits until the queue is empty and takes the bodies of all
 * requests back. A worker that has taken the last request from the queue may not
 * have read its body yet. The fix counts requests that are still being served;
 * -DFIXED builds it.
 *
 * The fault is in the front end, the failure in a worker, and all that connects them
 * is the queue.
 */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define QUEUE_SIZE 16
#define BATCH 12
#define MAX_WORKERS 4
#define BODY_SIZE 512

typedef struct {
    int number;
    uint32_t key;
    char *body;
    uint32_t answer;
} request;

typedef void (*job_function)(request *r);

typedef struct {
    job_function run;
    request *argument;
} job;

typedef struct {
    pthread_mutex_t lock;
    pthread_cond_t not_empty, not_full, drained;
    job jobs[QUEUE_SIZE];
    int head, count;
    int running;
    int closed;
} pool;

static pool workers_pool = {.lock = PTHREAD_MUTEX_INITIALIZER,
                            .not_empty = PTHREAD_COND_INITIALIZER,
                            .not_full = PTHREAD_COND_INITIALIZER,
                            .drained = PTHREAD_COND_INITIALIZER};
static request requests[BATCH];

static void submit(pool *p, job_function run, request *argument)
{
    pthread_mutex_lock(&p->lock);
    while (p->count == QUEUE_SIZE)
        pthread_cond_wait(&p->not_full, &p->lock);
    p->jobs[(p->head + p->count) % QUEUE_SIZE] = (job){run, argument};
    p->count++;
    pthread_cond_signal(&p->not_empty);
    pthread_mutex_unlock(&p->lock);
}

/* The next job; `run` is null when there will be no more. */
static job take_job(pool *p)
{
    job next = {NULL, NULL};
    pthread_mutex_lock(&p->lock);
    while (p->count == 0 && !p->closed)
        pthread_cond_wait(&p->not_empty, &p->lock);
    if (p->count > 0) {
        next = p->jobs[p->head];
        p->head = (p->head + 1) % QUEUE_SIZE;
        p->count--;
        p->running++;
        pthread_cond_signal(&p->not_full);
        if (p->count == 0)
            pthread_cond_signal(&p->drained);
    }
    pthread_mutex_unlock(&p->lock);
    return next;
}

static void job_done(pool *p)
{
    pthread_mutex_lock(&p->lock);
    p->running--;
    if (p->running == 0)
        pthread_cond_signal(&p->drained);
    pthread_mutex_unlock(&p->lock);
}

/* Waits until everything that was submitted has been dealt with. */
static void drain(pool *p)
{
    pthread_mutex_lock(&p->lock);
#ifdef FIXED
    while (p->count > 0 || p->running > 0)
        pthread_cond_wait(&p->drained, &p->lock);
#else
    while (p->count > 0)
        pthread_cond_wait(&p->drained, &p->lock);
#endif
    pthread_mutex_unlock(&p->lock);
}

static void close_pool(pool *p)
{
    pthread_mutex_lock(&p->lock);
    p->closed = 1;
    pthread_cond_broadcast(&p->not_empty);
    pthread_mutex_unlock(&p->lock);
}

/* The key schedule of a request: what has to be done before its body is read. */
static uint32_t derive_key(uint32_t key)
{
    for (int i = 0; i < 30; i++)
        key = key * 1664525u + 1013904223u;
    return key;
}

static void serve(request *r)
{
    uint32_t key = derive_key(r->key);
    const char *body = r->body;
    uint32_t answer = key;
    for (int i = 0; i < BODY_SIZE && body[i]; i++)
        answer = (answer ^ (unsigned char)body[i]) * 16777619u;
    r->answer = answer;
}

static void *worker_thread(void *arg)
{
    pool *p = arg;
    for (;;) {
        job next = take_job(p);
        if (next.run == NULL)
            return NULL;
        next.run(next.argument);
        job_done(p);
    }
}

static void fill(request *r, int number)
{
    uint32_t random = (uint32_t)number * 2654435761u + 1;
    int length = 20 + (int)(random % (BODY_SIZE - 40));
    r->number = number;
    r->key = random;
    r->body = malloc(BODY_SIZE);
    for (int i = 0; i < length; i++) {
        random = random * 1664525u + 1013904223u;
        r->body[i] = (char)('a' + (random >> 24) % 26);
    }
    r->body[length] = 0;
}

static void recycle(request *r)
{
    free(r->body);
    r->body = NULL;
}

static uint32_t run_batch(pool *p, int first)
{
    uint32_t answers = 0;
    for (int i = 0; i < BATCH; i++) {
        fill(&requests[i], first + i);
        submit(p, serve, &requests[i]);
    }
    drain(p);
    for (int i = BATCH - 1; i >= 0; i--) {
        answers ^= requests[i].answer;
        recycle(&requests[i]);
    }
    return answers;
}

int main(int argc, char **argv)
{
    int workers = argc > 1 ? atoi(argv[1]) : 2;
    int batches = argc > 2 ? atoi(argv[2]) : 20;
    pthread_t threads[MAX_WORKERS];
    uint32_t answers = 0;
    if (workers < 1 || workers > MAX_WORKERS || batches < 1) {
        fprintf(stderr, "usage: pool [WORKERS [BATCHES]]\n");
        return 2;
    }
    for (int i = 0; i < workers; i++)
        pthread_create(&threads[i], NULL, worker_thread, &workers_pool);
    for (int batch = 0; batch < batches; batch++)
        answers ^= run_batch(&workers_pool, batch * BATCH);
    close_pool(&workers_pool);
    for (int i = 0; i < workers; i++)
        pthread_join(threads[i], NULL);
    printf("%d batches, answers %08x\n", batches, answers);
    return 0;
}
