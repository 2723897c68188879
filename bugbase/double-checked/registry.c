/* A registry made at its first use by double-checked locking: a second thread uses
 * it before its table is there.
 *
 * registry_get looks at the pointer without the lock; if it is null, it takes the
 * lock, looks again and makes the registry. But the pointer is stored before the
 * registry is filled, and a thread that looks meanwhile takes it as it is. The fix
 * fills it first and stores the pointer last, with release and acquire; -DFIXED
 * builds it.
 *
 * Request handlers look names up in the registry, some sooner than others.
 */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_THREADS 8
#define NAME_SIZE 24

typedef struct {
    char name[NAME_SIZE];
    uint32_t hash;
    int port;
} service;

typedef struct {
    int count;
    int version;
    service *table;
} registry;

typedef struct {
    int number;
    int lookups;
    int warm_up;
    long found;
    uint64_t random;
} handler;

static registry *instance;
static pthread_mutex_t instance_lock = PTHREAD_MUTEX_INITIALIZER;
static int services = 500;

static uint64_t next_random(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

static uint32_t hash_of(const char *name)
{
    uint32_t hash = 2166136261u;
    for (; *name; name++)
        hash = (hash ^ (unsigned char)*name) * 16777619u;
    return hash;
}

static int by_hash(const void *a, const void *b)
{
    const service *x = a, *y = b;
    return x->hash < y->hash ? -1 : x->hash > y->hash;
}

/* Makes the table of services: names, hashes, sorted. */
static service *load_services(int count)
{
    service *table = calloc((size_t)count, sizeof *table);
    for (int i = 0; i < count; i++) {
        snprintf(table[i].name, NAME_SIZE, "service-%d", i);
        table[i].hash = hash_of(table[i].name);
        table[i].port = 1024 + i;
    }
    qsort(table, (size_t)count, sizeof *table, by_hash);
    return table;
}

static registry *registry_get(void)
{
#ifdef FIXED
    registry *r = __atomic_load_n(&instance, __ATOMIC_ACQUIRE);
    if (r == NULL) {
        pthread_mutex_lock(&instance_lock);
        r = instance;
        if (r == NULL) {
            r = calloc(1, sizeof *r);
            r->count = services;
            r->table = load_services(services);
            r->version = 1;
            __atomic_store_n(&instance, r, __ATOMIC_RELEASE);
        }
        pthread_mutex_unlock(&instance_lock);
    }
    return r;
#else
    if (__atomic_load_n(&instance, __ATOMIC_RELAXED) == NULL) {
        pthread_mutex_lock(&instance_lock);
        if (instance == NULL) {
            __atomic_store_n(&instance, calloc(1, sizeof *instance), __ATOMIC_RELAXED);
            instance->count = services;
            instance->table = load_services(services);
            instance->version = 1;
        }
        pthread_mutex_unlock(&instance_lock);
    }
    return instance;
#endif
}

/* The port of a service, or 0. */
static int lookup(const registry *r, const char *name)
{
    uint32_t hash = hash_of(name);
    int low = 0, high = r->count;
    const service *table = r->table;
    while (low < high) {
        int middle = (low + high) / 2;
        if (table[middle].hash == hash)
            return table[middle].port;
        if (table[middle].hash < hash)
            low = middle + 1;
        else
            high = middle;
    }
    return 0;
}

/* What a handler does before its first lookup: reading its request. */
static uint64_t read_request(handler *self)
{
    uint64_t sum = 0;
    for (int i = 0; i < self->warm_up; i++)
        sum += next_random(&self->random);
    return sum;
}

static void *handler_thread(void *arg)
{
    handler *self = arg;
    uint64_t request = read_request(self);
    for (int i = 0; i < self->lookups; i++) {
        char name[NAME_SIZE];
        snprintf(name, sizeof name, "service-%d", (int)((request + (uint64_t)i) % 600));
        if (lookup(registry_get(), name) != 0)
            self->found++;
    }
    return NULL;
}

int main(int argc, char **argv)
{
    int threads = argc > 1 ? atoi(argv[1]) : 2;
    uint64_t seed = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
    if (threads < 1 || threads > MAX_THREADS) {
        fprintf(stderr, "usage: registry [THREADS [SEED]]\n");
        return 2;
    }
    handler handlers[MAX_THREADS];
    pthread_t ids[MAX_THREADS];
    seed = seed * 2654435761u + 88172645463325252ULL;
    for (int i = 0; i < threads; i++) {
        uint64_t random = next_random(&seed);
        handlers[i] = (handler){.number = i, .lookups = 200, .random = random | 1,
                                .warm_up = 200 + (int)(random % 60000)};
        pthread_create(&ids[i], NULL, handler_thread, &handlers[i]);
    }
    long found = 0;
    for (int i = 0; i < threads; i++) {
        pthread_join(ids[i], NULL);
        found += handlers[i].found;
    }
    printf("%ld found\n", found);
    free(instance->table);
    free(instance);
    return 0;
}
