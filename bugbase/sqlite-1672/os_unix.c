/* The recursive mutex of SQLite 3.3.3's os_unix.c, in miniature: a thread takes
 * itself for the owner and two threads wait for each other.
 *
 * sqlite3UnixEnterMutex compares mutexOwner with the calling thread to see whether
 * it is inside already. The test and the acquisition are not one step: while
 * another thread is entering, inMutex is already raised and mutexOwner still names
 * the thread that was inside before. If that thread comes back now, it believes to
 * be inside, goes on without the lock, takes the shared cache's lock and then
 * waits for the other thread, which waits for the shared cache. The historical
 * fix puts a second mutex around the test; -DFIXED builds it.
 *
 * Only the structure is the original's. Connections of two threads share a cache
 * of pages and read and write rows in it.
 */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define PAGES 64
#define CONNECTIONS 2

typedef struct {
    pthread_mutex_t mutex;
    uint32_t rows[PAGES];
    int nLock;
} BtShared;

typedef struct {
    int id;
    int statements;
    uint64_t random;
    uint64_t sum;
} Connection;

static pthread_mutex_t mutexMain = PTHREAD_MUTEX_INITIALIZER;
#ifdef FIXED
static pthread_mutex_t mutexAux = PTHREAD_MUTEX_INITIALIZER;
#endif
static volatile int inMutex;
/* When the section was entered last and how often, for sqlite3_status. */
static uint64_t enteredAt;
static volatile unsigned long nEnter __attribute__((aligned(64)));
static volatile pthread_t mutexOwner __attribute__((aligned(64)));
static BtShared sharedCache = {.mutex = PTHREAD_MUTEX_INITIALIZER};

static uint64_t next_random(Connection *db)
{
    db->random ^= db->random << 13;
    db->random ^= db->random >> 7;
    db->random ^= db->random << 17;
    return db->random;
}

static uint64_t now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

/* Enters the library's critical section; a thread that is inside may enter again. */
static void sqlite3UnixEnterMutex(void)
{
#ifdef FIXED
    pthread_mutex_lock(&mutexAux);
    if (inMutex > 0 && pthread_equal(mutexOwner, pthread_self())) {
        inMutex++;
        pthread_mutex_unlock(&mutexAux);
        return;
    }
    pthread_mutex_unlock(&mutexAux);
    pthread_mutex_lock(&mutexMain);
    pthread_mutex_lock(&mutexAux);
    inMutex = 1;
    enteredAt = now();
    nEnter++;
    mutexOwner = pthread_self();
    pthread_mutex_unlock(&mutexAux);
#else
    if (inMutex > 0 && pthread_equal(mutexOwner, pthread_self())) {
        inMutex++;
        return;
    }
    pthread_mutex_lock(&mutexMain);
    inMutex = 1;
    enteredAt = now();
    nEnter++;
    mutexOwner = pthread_self();
#endif
}

static void sqlite3UnixLeaveMutex(void)
{
#ifdef FIXED
    pthread_mutex_lock(&mutexAux);
    int left = --inMutex;
    pthread_mutex_unlock(&mutexAux);
    if (left == 0)
        pthread_mutex_unlock(&mutexMain);
#else
    int left = --inMutex;
    if (left == 0)
        pthread_mutex_unlock(&mutexMain);
#endif
}

/* A row's new value, from its old one and what the statement says. */
static uint32_t evaluate(uint32_t row, uint64_t random)
{
    int steps = 1 + (int)(random >> 20) % 60;
    for (int i = 0; i < steps; i++)
        row = row * 1664525u + (uint32_t)random;
    return row;
}

/* Locks the file under the cache: nested in whatever the caller holds. */
static void unixLock(BtShared *pBt)
{
    sqlite3UnixEnterMutex();
    pBt->nLock++;
    sqlite3UnixLeaveMutex();
}

static void unixUnlock(BtShared *pBt)
{
    sqlite3UnixEnterMutex();
    pBt->nLock--;
    sqlite3UnixLeaveMutex();
}

static uint32_t sqlite3BtreeRead(BtShared *pBt, int page)
{
    sqlite3UnixEnterMutex();
    pthread_mutex_lock(&pBt->mutex);
    unixLock(pBt);
    uint32_t row = pBt->rows[page];
    unixUnlock(pBt);
    pthread_mutex_unlock(&pBt->mutex);
    sqlite3UnixLeaveMutex();
    return row;
}

static void sqlite3BtreeWrite(BtShared *pBt, int page, uint32_t row)
{
    sqlite3UnixEnterMutex();
    pthread_mutex_lock(&pBt->mutex);
    unixLock(pBt);
    pBt->rows[page] = row;
    unixUnlock(pBt);
    pthread_mutex_unlock(&pBt->mutex);
    sqlite3UnixLeaveMutex();
}

static void sqlite3_step(Connection *db)
{
    uint64_t random = next_random(db);
    int page = (int)(random % PAGES);
    uint32_t row = sqlite3BtreeRead(&sharedCache, page);
    row = evaluate(row, random);
    if ((random >> 8) % 3 == 0)
        sqlite3BtreeWrite(&sharedCache, page, row);
    db->sum += row;
}

static void *connection_thread(void *arg)
{
    Connection *db = arg;
    for (int i = 0; i < db->statements; i++)
        sqlite3_step(db);
    return NULL;
}

int main(int argc, char **argv)
{
    int statements = argc > 1 ? atoi(argv[1]) : 500;
    if (statements < 1) {
        fprintf(stderr, "usage: os_unix [STATEMENTS]\n");
        return 2;
    }
    Connection connections[CONNECTIONS];
    pthread_t threads[CONNECTIONS];
    for (int i = 0; i < CONNECTIONS; i++) {
        connections[i] = (Connection){.id = i, .statements = statements,
                                      .random = 0x853c49e6748fea9bULL + (uint64_t)i};
        pthread_create(&threads[i], NULL, connection_thread, &connections[i]);
    }
    uint64_t sum = 0, begun = now();
    for (int i = 0; i < CONNECTIONS; i++) {
        pthread_join(threads[i], NULL);
        sum += connections[i].sum;
    }
    printf("%d statements, %lu entries, the last after %llu ns, sum %llx\n", CONNECTIONS * statements, nEnter,
           (unsigned long long)(enteredAt - begun), (unsigned long long)sum);
    return 0;
}
