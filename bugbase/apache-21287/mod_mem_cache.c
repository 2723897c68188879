/* mod_mem_cache of httpd 2.0.48, in miniature: the last two holders of a cached
 * object both free it.
 *
 * Each holder decrements the object's reference count atomically and then, in a
 * second step, tests it for zero. Two threads can both decrement before either
 * tests; both then see zero. The historical fix acts on the result of the
 * decrement itself; -DFIXED builds it.
 *
 * Only the structure is the original's. Requests come from a generator in each
 * worker: most read an object of the cache, some replace it by a newer version,
 * which drops the cache's own reference to the old one.
 */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define CACHE_SLOTS 2
#define WORKERS 2

/* The body and its headers, as the storage module sees the object. */
typedef struct {
    uint32_t m_len;
    uint32_t version;
    uint64_t created;
    char *m;
} mem_cache_object_t;

/* What the cache hands out. */
typedef struct {
    const char *key;
    uint64_t hits;
    uint32_t refcount;
    int complete;
    mem_cache_object_t *vobj;
} cache_object_t;

typedef struct {
    pthread_mutex_t lock;
    cache_object_t *slots[CACHE_SLOTS];
    uint32_t versions;
} mem_cache_conf;

typedef struct {
    uint64_t random;
    int requests;
    uint64_t served;
    uint64_t checksum;
    uint64_t idle_since;
} worker_t;

static const char *const urls[CACHE_SLOTS] = {"/", "/index.html"};
static _Thread_local uint64_t last_release;
static _Thread_local const char *last_key;
static mem_cache_conf sconf = {.lock = PTHREAD_MUTEX_INITIALIZER};

static uint64_t next_random(worker_t *worker)
{
    worker->random ^= worker->random << 13;
    worker->random ^= worker->random >> 7;
    worker->random ^= worker->random << 17;
    return worker->random;
}

static void cleanup_cache_object(cache_object_t *obj)
{
    mem_cache_object_t *mobj = obj->vobj;
    if (mobj != NULL) {
        free(mobj->m);
        free(mobj);
    }
    free(obj);
}

/* When this thread last gave an object back; the status page shows it. */
static void note_release(const char *key)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    last_release = (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
    last_key = key;
}

/* Gives one reference back; whoever gives the last one frees the object. */
static void decrement_refcount(cache_object_t *obj)
{
    if (!obj->complete)
        obj->hits = 0;
    const char *key = obj->key;
#ifdef FIXED
    note_release(key);
    if (__atomic_sub_fetch(&obj->refcount, 1, __ATOMIC_SEQ_CST) == 0)
        cleanup_cache_object(obj);
#else
    __atomic_sub_fetch(&obj->refcount, 1, __ATOMIC_SEQ_CST);
    note_release(key);
    if (__atomic_load_n(&obj->refcount, __ATOMIC_SEQ_CST) == 0)
        cleanup_cache_object(obj);
#endif
}

/* A new object with one reference: the cache's. */
static cache_object_t *create_entity(int slot, uint64_t random)
{
    cache_object_t *obj = malloc(sizeof *obj);
    mem_cache_object_t *mobj = malloc(sizeof *mobj);
    mobj->m_len = 1200 + random % 3000;
    mobj->m = malloc(mobj->m_len);
    mobj->created = random;
    memset(mobj->m, (int)(random >> 40), mobj->m_len);
    obj->key = urls[slot];
    obj->hits = 0;
    obj->vobj = mobj;
    obj->complete = 1;
    obj->refcount = 1;
    return obj;
}

/* Puts an object into its slot and returns the one that was there. */
static cache_object_t *cache_replace(int slot, cache_object_t *obj)
{
    pthread_mutex_lock(&sconf.lock);
    cache_object_t *old = sconf.slots[slot];
    sconf.slots[slot] = obj;
    obj->vobj->version = ++sconf.versions;
    pthread_mutex_unlock(&sconf.lock);
    return old;
}

/* Finds an object and takes a reference to it. */
static cache_object_t *open_entity(int slot)
{
    pthread_mutex_lock(&sconf.lock);
    cache_object_t *obj = sconf.slots[slot];
    if (obj != NULL) {
        __atomic_add_fetch(&obj->refcount, 1, __ATOMIC_SEQ_CST);
        obj->hits++;
    }
    pthread_mutex_unlock(&sconf.lock);
    return obj;
}

static uint64_t send_body(const mem_cache_object_t *mobj, uint32_t length)
{
    uint64_t sum = mobj->version;
    if (length > mobj->m_len)
        length = mobj->m_len;
    for (uint32_t i = 0; i < length; i++)
        sum = sum * 31 + (unsigned char)mobj->m[i];
    return sum;
}

static void handle_request(worker_t *worker)
{
    uint64_t random = next_random(worker);
    int slot = (int)(random % CACHE_SLOTS);
    if ((random >> 8) % 4 == 0) {
        cache_object_t *old = cache_replace(slot, create_entity(slot, random));
        decrement_refcount(old);
        return;
    }
    cache_object_t *obj = open_entity(slot);
    /* Most clients ask for a part only. */
    worker->checksum += send_body(obj->vobj, (uint32_t)((random >> 16) % 300));
    worker->served++;
    decrement_refcount(obj);
}

static void *worker_thread(void *arg)
{
    worker_t *worker = arg;
    for (int i = 0; i < worker->requests; i++)
        handle_request(worker);
    worker->idle_since = last_key != NULL ? last_release : 0;
    return NULL;
}

int main(int argc, char **argv)
{
    int requests = argc > 1 ? atoi(argv[1]) : 1000;
    if (requests < 1) {
        fprintf(stderr, "usage: mod_mem_cache [REQUESTS]\n");
        return 2;
    }
    for (int slot = 0; slot < CACHE_SLOTS; slot++)
        cache_replace(slot, create_entity(slot, 977u * (unsigned)slot + 5));
    worker_t workers[WORKERS];
    pthread_t threads[WORKERS];
    for (int i = 0; i < WORKERS; i++) {
        workers[i] = (worker_t){.random = 0x2545f4914f6cdd1dULL + (uint64_t)i, .requests = requests};
        pthread_create(&threads[i], NULL, worker_thread, &workers[i]);
    }
    uint64_t served = 0, checksum = 0;
    for (int i = 0; i < WORKERS; i++) {
        pthread_join(threads[i], NULL);
        served += workers[i].served;
        checksum += workers[i].checksum;
    }
    for (int slot = 0; slot < CACHE_SLOTS; slot++)
        decrement_refcount(sconf.slots[slot]);
    printf("%llu served, checksum %llx\n", (unsigned long long)served, (unsigned long long)checksum);
    return 0;
}
