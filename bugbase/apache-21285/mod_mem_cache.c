/* mod_mem_cache of httpd 2.0.46, in miniature: two threads miss in the cache for
 * the same key, and the second frees what the first is still writing.
 *
 * A thread that misses creates an object, inserts it and then writes the body
 * into it. The lookup and the insertion are separate critical sections: another
 * thread can miss as well, and its insertion replaces and cleans up the first
 * thread's object, which is not complete yet. The historical fix inserts only
 * where nothing is cached yet; -DFIXED builds it.
 *
 * Only the structure is the original's. Pages are rendered, cached and served by
 * the workers; each has its own clients, who ask for the pages in their own order.
 */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_PAGES 64
#define CHUNK 256
#define WORKERS 2

/* The body as the storage module keeps it. */
typedef struct {
    size_t m_len;
    size_t pos;
    char *m;
} mem_cache_object_t;

typedef struct {
    int key;
    int complete;
    int cleaned;
    mem_cache_object_t vobj;
} cache_object_t;

typedef struct {
    pthread_mutex_t lock;
    cache_object_t *table[MAX_PAGES];
    /* Objects taken out of the cache; their memory goes when the server ends. */
    cache_object_t *retired[8 * MAX_PAGES];
    int retired_count;
} mem_cache_conf;

typedef struct {
    int pages;
    uint64_t random;
    uint64_t checksum;
    int hits, misses;
} worker_t;

static mem_cache_conf sconf = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* A page's size and content depend on its number alone. */
static size_t page_size(int page)
{
    return 2048 + (size_t)(page * 2654435761u >> 20) % 4096;
}

static void render(int page, size_t from, char *chunk, size_t size)
{
    uint32_t state = (uint32_t)page * 977u + (uint32_t)from + 1;
    for (size_t i = 0; i < size; i++) {
        state = state * 1664525u + 1013904223u;
        chunk[i] = (char)('a' + (state >> 24) % 26);
    }
}

static void cleanup_cache_object(cache_object_t *obj)
{
    free(obj->vobj.m);
    obj->vobj.m = NULL;
    obj->cleaned = 1;
    sconf.retired[sconf.retired_count++] = obj;
}

static cache_object_t *cache_find(int key)
{
    return sconf.table[key];
}

/* A hit only counts when the whole body is there. */
static cache_object_t *open_entity(int key)
{
    pthread_mutex_lock(&sconf.lock);
    cache_object_t *obj = cache_find(key);
    if (obj != NULL && !obj->complete)
        obj = NULL;
    pthread_mutex_unlock(&sconf.lock);
    return obj;
}

static cache_object_t *create_entity(int key, size_t size)
{
    cache_object_t *obj = calloc(1, sizeof *obj);
    obj->key = key;
    obj->vobj.m_len = size;
    obj->vobj.m = malloc(size);
    pthread_mutex_lock(&sconf.lock);
    cache_object_t *old = cache_find(key);
#ifdef FIXED
    if (old != NULL) {
        pthread_mutex_unlock(&sconf.lock);
        free(obj->vobj.m);
        free(obj);
        return NULL;
    }
#else
    if (old != NULL)
        cleanup_cache_object(old);
#endif
    sconf.table[key] = obj;
    pthread_mutex_unlock(&sconf.lock);
    return obj;
}

static void write_body(cache_object_t *obj, const char *chunk, size_t size)
{
    mem_cache_object_t *mobj = &obj->vobj;
    memcpy(mobj->m + mobj->pos, chunk, size);
    mobj->pos += size;
}

static void finish_entity(cache_object_t *obj)
{
    pthread_mutex_lock(&sconf.lock);
    obj->complete = 1;
    pthread_mutex_unlock(&sconf.lock);
}

static uint64_t send_page(const char *body, size_t size, uint64_t sum)
{
    for (size_t i = 0; i < size; i++)
        sum = sum * 31 + (unsigned char)body[i];
    return sum;
}

/* Renders a page, sends it and, if it may, keeps it. */
static void serve_uncached(worker_t *worker, int page)
{
    char chunk[CHUNK];
    size_t size = page_size(page);
    cache_object_t *obj = create_entity(page, size);
    for (size_t at = 0; at < size; at += CHUNK) {
        size_t part = size - at < CHUNK ? size - at : CHUNK;
        render(page, at, chunk, part);
        worker->checksum = send_page(chunk, part, worker->checksum);
        if (obj != NULL)
            write_body(obj, chunk, part);
    }
    if (obj != NULL)
        finish_entity(obj);
    worker->misses++;
}

static void handle_request(worker_t *worker, int page)
{
    cache_object_t *obj = open_entity(page);
    if (obj == NULL) {
        serve_uncached(worker, page);
        return;
    }
    worker->checksum = send_page(obj->vobj.m, obj->vobj.m_len, worker->checksum);
    worker->hits++;
}

static void *worker_thread(void *arg)
{
    worker_t *worker = arg;
    int order[MAX_PAGES];
    for (int i = 0; i < worker->pages; i++)
        order[i] = i;
    for (int i = worker->pages - 1; i > 0; i--) {
        worker->random = worker->random * 6364136223846793005ULL + 1442695040888963407ULL;
        int other = (int)((worker->random >> 33) % (unsigned)(i + 1));
        int page = order[i];
        order[i] = order[other];
        order[other] = page;
    }
    for (int i = 0; i < worker->pages; i++)
        handle_request(worker, order[i]);
    return NULL;
}

int main(int argc, char **argv)
{
    int pages = argc > 1 ? atoi(argv[1]) : 16;
    uint64_t seed = argc > 2 ? strtoull(argv[2], NULL, 10) * 2654435761u : 1;
    if (pages < 1 || pages > MAX_PAGES) {
        fprintf(stderr, "usage: mod_mem_cache [PAGES [SEED]]\n");
        return 2;
    }
    worker_t workers[WORKERS];
    pthread_t threads[WORKERS];
    for (int i = 0; i < WORKERS; i++) {
        workers[i] = (worker_t){.pages = pages, .random = seed + (uint64_t)i};
        pthread_create(&threads[i], NULL, worker_thread, &workers[i]);
    }
    int hits = 0, misses = 0;
    for (int i = 0; i < WORKERS; i++) {
        pthread_join(threads[i], NULL);
        hits += workers[i].hits;
        misses += workers[i].misses;
    }
    for (int i = 0; i < sconf.retired_count; i++)
        free(sconf.retired[i]);
    for (int page = 0; page < pages; page++) {
        free(sconf.table[page]->vobj.m);
        free(sconf.table[page]);
    }
    printf("%d hits, %d misses\n", hits, misses);
    return hits + misses == WORKERS * pages ? 0 : 1;
}
