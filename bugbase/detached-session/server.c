/* A detached thread writes into a session's buffer that main has already freed.
 *
 * For each session main starts a detached thread that appends the session's events
 * to its log. When the session ends, main asks the thread to stop and frees the
 * session's buffer, but nothing tells main that the thread has stopped: it may be in
 * the middle of an event. The fix waits until the thread has said so; -DFIXED
 * builds it.
 *
 * Sessions do a little work of varying length, one after the other.
 */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EVENT_SIZE 64
#define RING 64

typedef struct {
    int number;
    atomic_int closing;
    atomic_int stopped;
    atomic_uint due;
    unsigned logged;
    char *events;
} session;

typedef struct {
    int sessions;
    uint64_t random;
    uint64_t checksum;
} server;

static uint64_t next_random(server *self)
{
    self->random ^= self->random << 13;
    self->random ^= self->random >> 7;
    self->random ^= self->random << 17;
    return self->random;
}

/* Describes an event in the session's own words. */
static int describe(char *text, const session *s, unsigned event)
{
    uint32_t detail = (uint32_t)s->number * 977u;
    for (unsigned i = 0; i < 20 + event % 50; i++)
        detail = detail * 1664525u + event;
    return snprintf(text, EVENT_SIZE, "session %d event %u detail %08x", s->number, event, detail);
}

static void append(session *s, const char *text, int length)
{
    char *to = s->events + (s->logged % RING) * EVENT_SIZE;
    memcpy(to, text, (size_t)length + 1);
    s->logged++;
}

/* The logger: takes up events as they become due, until the session closes. */
static void *logger_thread(void *arg)
{
    session *s = arg;
    char text[EVENT_SIZE];
    while (!atomic_load(&s->closing)) {
        if (atomic_load(&s->due) == s->logged) {
            sched_yield();
            continue;
        }
        int length = describe(text, s, s->logged);
        append(s, text, length);
    }
    atomic_store(&s->stopped, 1);
    return NULL;
}

static session *open_session(int number)
{
    session *s = calloc(1, sizeof *s);
    pthread_attr_t detached;
    pthread_t logger;
    s->number = number;
    s->events = calloc(RING, EVENT_SIZE);
    pthread_attr_init(&detached);
    pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
    pthread_create(&logger, &detached, logger_thread, s);
    pthread_attr_destroy(&detached);
    return s;
}

/* What the session is for: requests, each of which is an event. */
static uint64_t work(session *s, uint64_t random)
{
    uint64_t sum = random;
    unsigned requests = 4 + (unsigned)(random % 24);
    for (unsigned request = 0; request < requests; request++) {
        unsigned steps = 200 + (unsigned)((random >> 8) % 4000);
        for (unsigned i = 0; i < steps; i++)
            sum = sum * 6364136223846793005ULL + request;
        atomic_fetch_add(&s->due, 1);
    }
    return sum;
}

/* The session itself stays for the statistics at the end; its buffer goes. */
static void close_session(session *s)
{
    atomic_store(&s->closing, 1);
#ifdef FIXED
    while (!atomic_load(&s->stopped))
        sched_yield();
#endif
    free(s->events);
    s->events = NULL;
}

static unsigned statistics(session **all, int count)
{
    unsigned logged = 0;
    for (int i = 0; i < count; i++)
        logged += all[i]->logged;
    return logged;
}

/* How many events were due and are in no log: the logger is not always in time. */
static unsigned missed(session **all, int count)
{
    unsigned due = 0;
    for (int i = 0; i < count; i++)
        due += atomic_load(&all[i]->due);
    unsigned logged = statistics(all, count);
    return due > logged ? due - logged : 0;
}

int main(int argc, char **argv)
{
    server self = {.sessions = argc > 1 ? atoi(argv[1]) : 8,
                   .random = 0x9fb21c651e98df25ULL};
    if (self.sessions < 1) {
        fprintf(stderr, "usage: server [SESSIONS]\n");
        return 2;
    }
    session **all = calloc((size_t)self.sessions, sizeof *all);
    for (int i = 0; i < self.sessions; i++) {
        all[i] = open_session(i);
        self.checksum ^= work(all[i], next_random(&self));
        close_session(all[i]);
    }
    printf("%u events, %u missed, checksum %llx\n", statistics(all, self.sessions),
           missed(all, self.sessions), (unsigned long long)self.checksum);
    return 0;
}
