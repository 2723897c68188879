/* memcached 1.4.4, in miniature: an increment goes to an item that is no longer
 * in the cache.
 *
 * An incr command gets the item under the cache's lock, lets go of it, and adds
 * the delta under the lock again. If the value has to grow by a digit, the item
 * is replaced by a longer one; a thread that got the old item before then adds to
 * the dead one, and its increment is lost. All accesses hold the lock: there is
 * no data race, only two critical sections that should be one. The historical fix
 * makes them one; -DFIXED builds it.
 *
 * Only the structure is the original's. The workload's clients count up the
 * same counters and check the sums at the end.
 */
#include <assert.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HASH_SIZE 64
#define ITEM_LINKED 1
#define MAX_KEYS 64
#define CLIENTS 2

typedef struct item {
    struct item *h_next;
    char key[24];
    int refcount;
    int it_flags;
    int nbytes;
    char data[];
} item;

typedef struct {
    int number;
    int keys;
    int rounds;
    uint64_t replies;
} client;

static pthread_mutex_t cache_lock = PTHREAD_MUTEX_INITIALIZER;
static item *primary_hashtable[HASH_SIZE];

static unsigned hash(const char *key)
{
    unsigned h = 2166136261u;
    for (; *key; key++)
        h = (h ^ (unsigned char)*key) * 16777619u;
    return h % HASH_SIZE;
}

static item *do_item_alloc(const char *key, int nbytes)
{
    item *it = calloc(1, sizeof *it + (size_t)nbytes);
    snprintf(it->key, sizeof it->key, "%s", key);
    it->nbytes = nbytes;
    it->refcount = 1;
    return it;
}

static void do_item_link(item *it)
{
    unsigned h = hash(it->key);
    it->it_flags |= ITEM_LINKED;
    it->refcount++;
    it->h_next = primary_hashtable[h];
    primary_hashtable[h] = it;
}

static void do_item_remove(item *it)
{
    if (--it->refcount == 0)
        free(it);
}

static void do_item_unlink(item *it)
{
    item **at = &primary_hashtable[hash(it->key)];
    if (!(it->it_flags & ITEM_LINKED))
        return;
    while (*at != it)
        at = &(*at)->h_next;
    *at = it->h_next;
    it->it_flags &= ~ITEM_LINKED;
    do_item_remove(it);
}

static void do_item_replace(item *it, item *new_it)
{
    do_item_unlink(it);
    do_item_link(new_it);
}

static item *do_item_get(const char *key)
{
    item *it = primary_hashtable[hash(key)];
    while (it != NULL && strcmp(it->key, key) != 0)
        it = it->h_next;
    if (it != NULL)
        it->refcount++;
    return it;
}

static item *item_get(const char *key)
{
    pthread_mutex_lock(&cache_lock);
    item *it = do_item_get(key);
    pthread_mutex_unlock(&cache_lock);
    return it;
}

static void item_remove(item *it)
{
    pthread_mutex_lock(&cache_lock);
    do_item_remove(it);
    pthread_mutex_unlock(&cache_lock);
}

/* Adds to the number in the item's data; a number that has grown needs a new item. */
static uint64_t do_add_delta(item *it, uint64_t delta)
{
    char buf[24];
    uint64_t value = strtoull(it->data, NULL, 10);
    value += delta;
    int res = snprintf(buf, sizeof buf, "%llu", (unsigned long long)value);
    if (res + 1 > it->nbytes) {
        item *new_it = do_item_alloc(it->key, res + 1);
        memcpy(new_it->data, buf, (size_t)res + 1);
        do_item_replace(it, new_it);
        do_item_remove(new_it);
    } else {
        memcpy(it->data, buf, (size_t)res + 1);
    }
    return value;
}

static uint64_t add_delta(item *it, uint64_t delta)
{
    pthread_mutex_lock(&cache_lock);
    uint64_t value = do_add_delta(it, delta);
    pthread_mutex_unlock(&cache_lock);
    return value;
}

/* The incr command: its line is taken apart, then the item is found and changed. */
static uint64_t process_arithmetic_command(const char *line)
{
    char key[24];
    unsigned long long delta;
    uint64_t value;
    if (sscanf(line, "incr %23s %llu", key, &delta) != 2)
        return 0;
#ifdef FIXED
    pthread_mutex_lock(&cache_lock);
    item *it = do_item_get(key);
    value = do_add_delta(it, delta);
    do_item_remove(it);
    pthread_mutex_unlock(&cache_lock);
#else
    item *it = item_get(key);
    value = add_delta(it, delta);
    item_remove(it);
#endif
    return value;
}

static void *client_thread(void *arg)
{
    client *self = arg;
    char line[64];
    for (int round = 0; round < self->rounds; round++) {
        for (int key = 0; key < self->keys; key++) {
            snprintf(line, sizeof line, "incr counter:%d 1", key);
            self->replies ^= process_arithmetic_command(line);
        }
    }
    return NULL;
}

static uint64_t read_counter(int key)
{
    char name[24];
    snprintf(name, sizeof name, "counter:%d", key);
    item *it = item_get(name);
    uint64_t value = strtoull(it->data, NULL, 10);
    item_remove(it);
    return value;
}

/* The workload's own check: nothing that was counted may be missing. */
static void check_counter(int key, uint64_t expected)
{
    uint64_t value = read_counter(key);
    assert(value == expected);
}

int main(int argc, char **argv)
{
    int keys = argc > 1 ? atoi(argv[1]) : 8;
    int rounds = argc > 2 ? atoi(argv[2]) : 60;
    if (keys < 1 || keys > MAX_KEYS || rounds < 1) {
        fprintf(stderr, "usage: memcached [KEYS [ROUNDS]]\n");
        return 2;
    }
    for (int key = 0; key < keys; key++) {
        char name[24];
        snprintf(name, sizeof name, "counter:%d", key);
        item *it = do_item_alloc(name, 2);
        memcpy(it->data, "0", 2);
        do_item_link(it);
        do_item_remove(it);
    }
    client clients[CLIENTS];
    pthread_t threads[CLIENTS];
    for (int i = 0; i < CLIENTS; i++) {
        clients[i] = (client){.number = i, .keys = keys, .rounds = rounds};
        pthread_create(&threads[i], NULL, client_thread, &clients[i]);
    }
    for (int i = 0; i < CLIENTS; i++)
        pthread_join(threads[i], NULL);
    for (int key = 0; key < keys; key++)
        check_counter(key, (uint64_t)CLIENTS * (uint64_t)rounds);
    printf("%d counters at %d\n", keys, CLIENTS * rounds);
    return 0;
}
