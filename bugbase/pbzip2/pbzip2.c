/* pbzip2, in miniature: a parallel block compressor whose main thread deletes
 * the work queue without waiting for the consumers.
 *
 * The fault is that of pbzip2 0.9.4: after the last block is written, main
 * frees fifo->mut and sets it to NULL while the consumer of that block may
 * still be on its way to unlock it. The historical fix joins the consumers
 * first; -DFIXED builds it.
 *
 * Only the structure is the original's (functions, fields, locks, threads).
 * Blocks are run-length encoded, which is compression enough to race over.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define QUEUE_SIZE 8
#define MAX_CONSUMERS 16
/* Enough for a block of twice the size: the worst case of the encoding. */
#define WORK_SIZE (1024 * 1024)

typedef struct {
    unsigned char *data;
    size_t size;
    int number;
} block;

typedef struct {
    block buffer[QUEUE_SIZE];
    long head, tail;
    int full, empty;
    pthread_mutex_t *mut;
    pthread_cond_t *notFull, *notEmpty;
} queue;

typedef struct {
    unsigned char *data;
    size_t size;
} outBuff;

static int allDone;
static int numBlocks;
static size_t blockSize = 16 * 1024;
static outBuff *outputBuffer;
static pthread_mutex_t outMutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t outReady = PTHREAD_COND_INITIALIZER;
static size_t blocksDone[MAX_CONSUMERS];
static size_t bytesDone[MAX_CONSUMERS];
static int consumersStarted;

static queue *queueInit(void)
{
    queue *q = calloc(1, sizeof *q);
    if (q == NULL)
        return NULL;
    q->empty = 1;
    q->mut = malloc(sizeof *q->mut);
    pthread_mutex_init(q->mut, NULL);
    q->notFull = malloc(sizeof *q->notFull);
    pthread_cond_init(q->notFull, NULL);
    q->notEmpty = malloc(sizeof *q->notEmpty);
    pthread_cond_init(q->notEmpty, NULL);
    return q;
}

static void queueDelete(queue *q)
{
    pthread_mutex_destroy(q->mut);
    free(q->mut);
    q->mut = NULL;
    free(q->notFull);
    q->notFull = NULL;
    free(q->notEmpty);
    q->notEmpty = NULL;
}

static void queueAdd(queue *q, block in)
{
    q->buffer[q->tail] = in;
    q->tail = (q->tail + 1) % QUEUE_SIZE;
    q->full = q->tail == q->head;
    q->empty = 0;
}

static block queueDel(queue *q)
{
    block out = q->buffer[q->head];
    q->head = (q->head + 1) % QUEUE_SIZE;
    q->empty = q->head == q->tail;
    q->full = 0;
    return out;
}

/* Run-length encoding: (count, byte) pairs. */
static size_t compress(const unsigned char *in, size_t size, unsigned char *out)
{
    size_t written = 0;
    for (size_t i = 0; i < size;) {
        size_t run = 1;
        while (i + run < size && run < 255 && in[i + run] == in[i])
            run++;
        out[written++] = (unsigned char)run;
        out[written++] = in[i];
        i += run;
    }
    return written;
}

/* Whether the output decodes to the input again. */
static int verify(const unsigned char *in, size_t size)
{
    size_t checked = 0;
    for (int i = 0; i < numBlocks; i++) {
        for (size_t j = 0; j < outputBuffer[i].size; j += 2) {
            for (int run = outputBuffer[i].data[j]; run > 0; run--) {
                if (checked == size || in[checked] != outputBuffer[i].data[j + 1])
                    return 0;
                checked++;
            }
        }
    }
    return checked == size;
}

static void storeOutput(block b, unsigned char *work)
{
    size_t size = compress(b.data, b.size, work);
    unsigned char *out = malloc(size);
    memcpy(out, work, size);
    pthread_mutex_lock(&outMutex);
    outputBuffer[b.number].data = out;
    outputBuffer[b.number].size = size;
    pthread_cond_signal(&outReady);
    pthread_mutex_unlock(&outMutex);
}

/* Says how the consumer did; the queue's lock keeps the lines whole. */
static void report(int self)
{
    fprintf(stderr, "consumer %d: %zu blocks, %zu bytes\n", self, blocksDone[self], bytesDone[self]);
}

static void *consumer(void *q)
{
    queue *fifo = q;
    unsigned char *work = malloc(WORK_SIZE);
    memset(work, 0, WORK_SIZE);
    int self = __atomic_fetch_add(&consumersStarted, 1, __ATOMIC_RELAXED);
    for (;;) {
        pthread_mutex_lock(fifo->mut);
        while (fifo->empty) {
            if (allDone == 1) {
                report(self);
                free(work);
                pthread_mutex_unlock(fifo->mut);
                return NULL;
            }
            pthread_cond_wait(fifo->notEmpty, fifo->mut);
        }
        block b = queueDel(fifo);
        pthread_cond_signal(fifo->notFull);
        pthread_mutex_unlock(fifo->mut);
        blocksDone[self]++;
        bytesDone[self] += b.size;
        storeOutput(b, work);
        free(b.data);
    }
}

static void *fileWriter(void *path)
{
    FILE *file = fopen(path, "wb");
    for (int i = 0; file != NULL && i < numBlocks; i++) {
        pthread_mutex_lock(&outMutex);
        while (outputBuffer[i].data == NULL)
            pthread_cond_wait(&outReady, &outMutex);
        outBuff out = outputBuffer[i];
        pthread_mutex_unlock(&outMutex);
        fwrite(out.data, 1, out.size, file);
    }
    if (file != NULL)
        fclose(file);
    return NULL;
}

static void producer(queue *fifo, const unsigned char *in, size_t size)
{
    for (int i = 0; i < numBlocks; i++) {
        size_t from = i * blockSize;
        block b = {NULL, size - from < blockSize ? size - from : blockSize, i};
        b.data = malloc(b.size);
        memcpy(b.data, in + from, b.size);
        pthread_mutex_lock(fifo->mut);
        while (fifo->full)
            pthread_cond_wait(fifo->notFull, fifo->mut);
        queueAdd(fifo, b);
        pthread_cond_signal(fifo->notEmpty);
        pthread_mutex_unlock(fifo->mut);
    }
    pthread_mutex_lock(fifo->mut);
    allDone = 1;
    pthread_cond_broadcast(fifo->notEmpty);
    pthread_mutex_unlock(fifo->mut);
}

static unsigned char *readAll(const char *path, size_t *size)
{
    FILE *file = fopen(path, "rb");
    if (file == NULL)
        return NULL;
    fseek(file, 0, SEEK_END);
    *size = (size_t)ftell(file);
    rewind(file);
    unsigned char *data = malloc(*size + 1);
    *size = fread(data, 1, *size, file);
    fclose(file);
    return data;
}

int main(int argc, char **argv)
{
    int consumers = argc > 3 ? atoi(argv[3]) : 2;
    size_t size = 0;
    unsigned char *in = argc > 2 ? readAll(argv[1], &size) : NULL;
    if (in == NULL || consumers < 1 || consumers > MAX_CONSUMERS) {
        fprintf(stderr, "usage: pbzip2 INPUT OUTPUT [CONSUMERS]\n");
        return 2;
    }
    numBlocks = (int)((size + blockSize - 1) / blockSize);
    outputBuffer = calloc(numBlocks + 1, sizeof *outputBuffer);

    queue *fifo = queueInit();
    pthread_t writer, con[MAX_CONSUMERS];
    for (int i = 0; i < consumers; i++)
        pthread_create(&con[i], NULL, consumer, fifo);
    pthread_create(&writer, NULL, fileWriter, argv[2]);
    producer(fifo, in, size);
    pthread_join(writer, NULL);
#ifdef FIXED
    for (int i = 0; i < consumers; i++)
        pthread_join(con[i], NULL);
#endif
    queueDelete(fifo);

    if (!verify(in, size)) {
        fprintf(stderr, "pbzip2: the output is wrong\n");
        return 1;
    }
    size_t total = 0;
    for (int i = 0; i < numBlocks; i++) {
        total += outputBuffer[i].size;
        free(outputBuffer[i].data);
    }
    free(outputBuffer);
    free(in);
    printf("%zu bytes to %zu\n", size, total);
    return 0;
}
