/* mod_log_config of httpd 2.0.48, in miniature: threads share a log buffer
 * without a lock.
 *
 * ap_buffered_log_writer reads how much the buffer holds, copies a line there and
 * then adds the line's length. Two threads in it at once write over each other's
 * line, lose one of the additions, or run past the buffer. The historical fix
 * gives each buffer a lock; -DFIXED builds it.
 *
 * Only the structure is the original's. The log goes to a file held in memory,
 * and the program reads it back at its end, as a log analyser would: each line of
 * each thread must be there, whole and once.
 */
#include <assert.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LOG_BUFSIZE 1024
#define MAX_THREADS 8
#define MAX_REQUESTS 4096
#define MAX_PARTS 6
#define MAX_LINE 128

typedef struct {
    char *data;
    size_t size, room;
} log_file;

typedef struct {
    log_file *handle;
    size_t outcnt;
    char outbuf[LOG_BUFSIZE + MAX_LINE];
    pthread_mutex_t mutex;
} buffered_log;

typedef struct {
    buffered_log *log;
    int number;
    int requests;
    uint64_t random;
    uint64_t checksum;
} worker_t;

static unsigned char seen[MAX_THREADS][MAX_REQUESTS];

static uint64_t next_random(worker_t *worker)
{
    worker->random ^= worker->random << 13;
    worker->random ^= worker->random >> 7;
    worker->random ^= worker->random << 17;
    return worker->random;
}

static buffered_log *log_open(log_file *file, size_t room)
{
    buffered_log *buf = calloc(1, sizeof *buf);
    file->room = room;
    file->size = 0;
    file->data = malloc(room);
    buf->handle = file;
    pthread_mutex_init(&buf->mutex, NULL);
    return buf;
}

static void file_write(log_file *file, const char *from, size_t size)
{
    if (size > file->room - file->size)
        size = file->room - file->size;
    memcpy(file->data + file->size, from, size);
    file->size += size;
}

static void flush_log(buffered_log *buf)
{
    if (buf->outcnt) {
        file_write(buf->handle, buf->outbuf, buf->outcnt);
        buf->outcnt = 0;
    }
}

static void ap_buffered_log_writer(buffered_log *buf, const char **strs, const size_t *strl,
                                   int nelts, size_t len)
{
#ifdef FIXED
    pthread_mutex_lock(&buf->mutex);
#endif
    if (len + buf->outcnt > LOG_BUFSIZE)
        flush_log(buf);
    if (len >= LOG_BUFSIZE) {
        for (int i = 0; i < nelts; i++)
            file_write(buf->handle, strs[i], strl[i]);
    } else {
        char *s = &buf->outbuf[buf->outcnt];
        for (int i = 0; i < nelts; i++) {
            memcpy(s, strs[i], strl[i]);
            s += strl[i];
        }
        buf->outcnt += len;
    }
#ifdef FIXED
    pthread_mutex_unlock(&buf->mutex);
#endif
}

/* One line of the access log, put together from its parts. */
static void config_log_transaction(worker_t *worker, int request, unsigned status, unsigned bytes)
{
    char who[32], what[48], result[32];
    const char *strs[MAX_PARTS];
    size_t strl[MAX_PARTS], len = 0;
    int nelts = 0;
    snprintf(who, sizeof who, "%d %d ", worker->number, request);
    snprintf(what, sizeof what, "\"GET /page/%u\"", bytes % 977);
    snprintf(result, sizeof result, " %u %u", status, bytes);
    strs[nelts++] = who;
    strs[nelts++] = what;
    strs[nelts++] = result;
    strs[nelts++] = ";\n";
    for (int i = 0; i < nelts; i++) {
        strl[i] = strlen(strs[i]);
        len += strl[i];
    }
    ap_buffered_log_writer(worker->log, strs, strl, nelts, len);
}

/* Serves a page: something to do between two lines of the log. */
static unsigned serve(worker_t *worker, uint64_t random)
{
    unsigned bytes = 200 + (unsigned)(random % 9000);
    uint64_t sum = random;
    for (unsigned i = 0; i < bytes; i++)
        sum = sum * 6364136223846793005ULL + i;
    worker->checksum ^= sum;
    return bytes;
}

static void *worker_thread(void *arg)
{
    worker_t *worker = arg;
    for (int i = 0; i < worker->requests; i++) {
        uint64_t random = next_random(worker);
        unsigned bytes = serve(worker, random);
        config_log_transaction(worker, i, random % 50 ? 200 : 404, bytes);
    }
    return NULL;
}

/* Reads the log back. Returns how many lines were whole and not seen before. */
static int count_good_lines(const log_file *file)
{
    int good = 0;
    size_t at = 0;
    while (at < file->size) {
        const char *line = file->data + at;
        const char *end = memchr(line, '\n', file->size - at);
        if (end == NULL)
            break;
        char text[MAX_LINE] = "";
        size_t size = (size_t)(end - line);
        int thread, request;
        unsigned page, status, bytes;
        memcpy(text, line, size < MAX_LINE - 1 ? size : MAX_LINE - 1);
        if (sscanf(text, "%d %d \"GET /page/%u\" %u %u;", &thread, &request, &page, &status, &bytes) == 5
            && thread >= 0 && thread < MAX_THREADS && request >= 0 && request < MAX_REQUESTS
            && page == bytes % 977 && !seen[thread][request]) {
            seen[thread][request] = 1;
            good++;
        }
        at += size + 1;
    }
    return good;
}

static void check_log(const log_file *file, int expected)
{
    int good = count_good_lines(file);
    assert(good == expected);
}

int main(int argc, char **argv)
{
    int threads = argc > 1 ? atoi(argv[1]) : 2;
    int requests = argc > 2 ? atoi(argv[2]) : 200;
    if (threads < 1 || threads > MAX_THREADS || requests < 1 || requests > MAX_REQUESTS) {
        fprintf(stderr, "usage: mod_log_config [THREADS [REQUESTS]]\n");
        return 2;
    }
    log_file file;
    buffered_log *buf = log_open(&file, (size_t)threads * (size_t)requests * MAX_LINE);
    worker_t workers[MAX_THREADS];
    pthread_t ids[MAX_THREADS];
    for (int i = 0; i < threads; i++) {
        workers[i] = (worker_t){.log = buf, .number = i, .requests = requests,
                                .random = 88172645463325252ULL + 7919u * (unsigned)i};
        pthread_create(&ids[i], NULL, worker_thread, &workers[i]);
    }
    for (int i = 0; i < threads; i++)
        pthread_join(ids[i], NULL);
    flush_log(buf);
    check_log(&file, threads * requests);
    printf("%d lines, %zu bytes\n", threads * requests, file.size);
    free(file.data);
    free(buf);
    return 0;
}
