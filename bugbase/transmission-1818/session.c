/* Session start of transmission 1.42, in miniature: the event thread uses the
 * session's bandwidth object before the main thread has made it.
 *
 * tr_sessionInitFull starts the event thread early and goes on with loading the
 * settings, the blocklist and the torrents' resume files; near its end it creates
 * the bandwidth object. The event thread's first pulse reads session->bandwidth and
 * allocates from it. If the pulse comes first, it meets NULL. The historical fix
 * creates the object before the event thread; -DFIXED builds it.
 *
 * Only the structure is the original's. The settings, the blocklist and the peers
 * are made up from the session's number instead of being read from the disk.
 */
#include <assert.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BANDWIDTH_MAGIC 43143
#define MAX_PEERS 64
#define PULSES 20

enum { TR_UP, TR_DOWN, TR_DIRECTIONS };

typedef struct {
    int magicNumber;
    double desiredSpeed[TR_DIRECTIONS];
    unsigned bytesLeft[TR_DIRECTIONS];
    int isLimited[TR_DIRECTIONS];
} tr_bandwidth;

typedef struct {
    uint32_t first, last;
} tr_ipv4_range;

typedef struct {
    char key[32];
    int value;
} tr_setting;

typedef struct {
    unsigned wants[TR_DIRECTIONS];
    unsigned got[TR_DIRECTIONS];
} tr_peer;

typedef struct {
    uint64_t number;
    uint64_t random;
    pthread_t eventThread;
    int eventsStarted;
    tr_setting *settings;
    int settingCount;
    tr_ipv4_range *blocklist;
    int blocklistCount;
    tr_peer peers[MAX_PEERS];
    int peerCount;
    tr_bandwidth *bandwidth;
    pthread_mutex_t lock;
} tr_session;

static uint64_t next_random(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

static int tr_isBandwidth(const tr_bandwidth *b)
{
    return b != NULL && b->magicNumber == BANDWIDTH_MAGIC;
}

static tr_bandwidth *tr_bandwidthNew(void)
{
    tr_bandwidth *b = calloc(1, sizeof *b);
    b->magicNumber = BANDWIDTH_MAGIC;
    return b;
}

static void tr_bandwidthSetDesiredSpeed(tr_bandwidth *b, int direction, double speed)
{
    b->desiredSpeed[direction] = speed;
    b->isLimited[direction] = speed > 0;
}

/* Shares what one period allows among the peers. */
static void tr_bandwidthAllocate(tr_bandwidth *b, int direction, tr_peer *peers, int count)
{
    assert(tr_isBandwidth(b));
    b->bytesLeft[direction] = (unsigned)(b->desiredSpeed[direction] * 512);
    for (int i = 0; i < count; i++) {
        unsigned share = peers[i].wants[direction];
        if (b->isLimited[direction] && share > b->bytesLeft[direction])
            share = b->bytesLeft[direction];
        peers[i].got[direction] += share;
        b->bytesLeft[direction] -= b->isLimited[direction] ? share : 0;
    }
}

static int compare_ranges(const void *a, const void *b)
{
    const tr_ipv4_range *x = a, *y = b;
    return x->first < y->first ? -1 : x->first > y->first;
}

static void load_blocklist(tr_session *session, int count)
{
    session->blocklist = malloc((size_t)count * sizeof *session->blocklist);
    for (int i = 0; i < count; i++) {
        uint32_t first = (uint32_t)next_random(&session->random);
        session->blocklist[i] = (tr_ipv4_range){first, first | 255};
    }
    qsort(session->blocklist, (size_t)count, sizeof *session->blocklist, compare_ranges);
    session->blocklistCount = count;
}

static void load_settings(tr_session *session, int count)
{
    session->settings = calloc((size_t)count, sizeof *session->settings);
    for (int i = 0; i < count; i++) {
        char line[64];
        snprintf(line, sizeof line, "setting-%d: %u", i, (unsigned)next_random(&session->random) % 1000);
        if (sscanf(line, "%31[^:]: %d", session->settings[i].key, &session->settings[i].value) == 2)
            session->settingCount++;
    }
}

static int setting(const tr_session *session, const char *key)
{
    for (int i = 0; i < session->settingCount; i++)
        if (strcmp(session->settings[i].key, key) == 0)
            return session->settings[i].value;
    return 0;
}

/* The event thread's bookkeeping of peers: who is there and what they want. */
static void load_peers(tr_session *session, uint64_t random)
{
    session->peerCount = 8 + (int)(random % (MAX_PEERS - 8));
    for (int i = 0; i < session->peerCount; i++) {
        uint64_t hash = next_random(&random);
        for (int round = 0; round < 60000; round++)
            hash = hash * 6364136223846793005ULL + (uint64_t)i;
        session->peers[i].wants[TR_UP] = (unsigned)(hash >> 50);
        session->peers[i].wants[TR_DOWN] = (unsigned)(hash >> 44) % 20000;
    }
}

static void bandwidthPulse(tr_session *session)
{
    pthread_mutex_lock(&session->lock);
    tr_bandwidth *b = session->bandwidth;
    tr_bandwidthAllocate(b, TR_UP, session->peers, session->peerCount);
    tr_bandwidthAllocate(b, TR_DOWN, session->peers, session->peerCount);
    pthread_mutex_unlock(&session->lock);
}

static void *libeventThreadFunc(void *arg)
{
    tr_session *session = arg;
    load_peers(session, session->number * 0x9e3779b97f4a7c15ULL | 1);
    for (int i = 0; i < PULSES; i++)
        bandwidthPulse(session);
    return NULL;
}

static void tr_eventInit(tr_session *session)
{
    session->eventsStarted = 1;
    pthread_create(&session->eventThread, NULL, libeventThreadFunc, session);
}

static tr_session *tr_sessionInitFull(uint64_t number, int settings, int most_ranges)
{
    tr_session *session = calloc(1, sizeof *session);
    session->number = number;
    session->random = number * 2654435761u + 88172645463325252ULL;
    int ranges = 1 + (int)(next_random(&session->random) % (unsigned)most_ranges);
    pthread_mutex_init(&session->lock, NULL);
#ifdef FIXED
    session->bandwidth = tr_bandwidthNew();
    tr_eventInit(session);
    load_settings(session, settings);
    load_blocklist(session, ranges);
#else
    tr_eventInit(session);
    load_settings(session, settings);
    load_blocklist(session, ranges);
    session->bandwidth = tr_bandwidthNew();
#endif
    pthread_mutex_lock(&session->lock);
    tr_bandwidthSetDesiredSpeed(session->bandwidth, TR_UP, setting(session, "setting-0"));
    tr_bandwidthSetDesiredSpeed(session->bandwidth, TR_DOWN, setting(session, "setting-1"));
    pthread_mutex_unlock(&session->lock);
    return session;
}

static unsigned tr_sessionClose(tr_session *session)
{
    unsigned total = 0;
    pthread_join(session->eventThread, NULL);
    for (int i = 0; i < session->peerCount; i++)
        total += session->peers[i].got[TR_UP] + session->peers[i].got[TR_DOWN];
    free(session->bandwidth);
    free(session->blocklist);
    free(session->settings);
    free(session);
    return total;
}

int main(int argc, char **argv)
{
    int settings = argc > 1 ? atoi(argv[1]) : 20;
    int ranges = argc > 2 ? atoi(argv[2]) : 100;
    uint64_t number = argc > 3 ? strtoull(argv[3], NULL, 10) : 1818;
    if (settings < 2 || ranges < 1) {
        fprintf(stderr, "usage: session [SETTINGS [RANGES [NUMBER]]]\n");
        return 2;
    }
    tr_session *session = tr_sessionInitFull(number, settings, ranges);
    printf("%u bytes shared\n", tr_sessionClose(session));
    return 0;
}
