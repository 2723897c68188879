/* A lock-free list of free buffers without a version tag: a buffer that was taken
 * and given back in the meantime makes a stale successor the head.
 *
 * take() reads the head and its successor and then swaps the head. If the thread is
 * held up in between, another one can take that buffer and the next one and give
 * the first back: the head is the same again, the swap succeeds, and the successor
 * that is put there is in use. Two threads then own one buffer. The fix counts a tag
 * up with every change of the head; -DFIXED builds it.
 *
 * Packets are built in buffers from the list, kept for a while and checked when
 * they are sent.
 */
#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define BUFFERS 12
#define WORDS 128
#define THREADS 2
#define KEPT 4
#define NONE 0xffffffffu

typedef struct {
    _Atomic uint32_t next;
    atomic_int owner;
    uint32_t words[WORDS];
} buffer;

typedef struct {
    int id;
    int packets;
    uint64_t random;
    uint32_t kept[KEPT];
    int kept_count;
    long empty;
    unsigned worn;
} sender;

static buffer buffers[BUFFERS];
/* The index of the first free buffer in the low half; the tag in the high half. */
static _Atomic uint64_t head;
static _Thread_local unsigned worn;

static uint64_t next_random(sender *self)
{
    self->random ^= self->random << 13;
    self->random ^= self->random >> 7;
    self->random ^= self->random << 17;
    return self->random;
}

static uint64_t tagged(uint32_t index, uint64_t before)
{
#ifdef FIXED
    return ((before >> 32) + 1) << 32 | index;
#else
    (void)before;
    return index;
#endif
}

/* Gives a buffer back. */
static void give(uint32_t index)
{
    uint64_t old = atomic_load(&head);
    do {
        atomic_store(&buffers[index].next, (uint32_t)old);
    } while (!atomic_compare_exchange_weak(&head, &old, tagged(index, old)));
}

/* How many bits of a buffer are set; the hardware's log wants to know. */
static unsigned wear(const buffer *b)
{
    unsigned bits = 0;
    for (int i = 0; i < WORDS; i++)
        bits += (unsigned)__builtin_popcount(b->words[i]);
    return bits;
}

/* Takes a free buffer; NONE if there is none. */
static uint32_t take(void)
{
    uint64_t old = atomic_load(&head);
    for (;;) {
        uint32_t first = (uint32_t)old;
        if (first == NONE)
            return NONE;
        uint32_t next = atomic_load(&buffers[first].next);
        worn += wear(&buffers[first]);
        if (atomic_compare_exchange_strong(&head, &old, tagged(next, old)))
            return first;
    }
}

/* Whoever takes a buffer is its only owner until it is sent. */
static void own(uint32_t index, int id)
{
    int before = atomic_exchange(&buffers[index].owner, id);
    assert(before == 0);
}

static void disown(uint32_t index, int id)
{
    int before = atomic_exchange(&buffers[index].owner, 0);
    assert(before == id);
}

static void fill(uint32_t index, uint64_t random)
{
    int words = 1 + (int)(random % (WORDS / 8));
    for (int i = 0; i < words; i++)
        buffers[index].words[i] = (uint32_t)(random = random * 6364136223846793005ULL + 1);
}

static void send_packet(sender *self, uint32_t index)
{
    disown(index, self->id);
    give(index);
}

/* Sends one of the packets that are kept. */
static void send_one(sender *self, uint64_t random)
{
    int at = (int)(random % (uint64_t)self->kept_count);
    uint32_t index = self->kept[at];
    self->kept[at] = self->kept[--self->kept_count];
    send_packet(self, index);
}

static void *sender_thread(void *arg)
{
    sender *self = arg;
    for (int i = 0; i < self->packets; i++) {
        uint64_t random = next_random(self);
        uint32_t index = take();
        if (index == NONE) {
            self->empty++;
        } else {
            own(index, self->id);
            fill(index, random);
            self->kept[self->kept_count++] = index;
        }
        if (self->kept_count == KEPT || (self->kept_count > 0 && (random >> 40) % 2 == 0))
            send_one(self, random >> 48);
    }
    while (self->kept_count > 0)
        send_one(self, 0);
    self->worn = worn;
    return NULL;
}

static int count_free(void)
{
    int count = 0;
    for (uint32_t at = (uint32_t)atomic_load(&head); at != NONE && count <= BUFFERS; at = buffers[at].next)
        count++;
    return count;
}

int main(int argc, char **argv)
{
    int packets = argc > 1 ? atoi(argv[1]) : 1000;
    if (packets < 1) {
        fprintf(stderr, "usage: freelist [PACKETS]\n");
        return 2;
    }
    atomic_store(&head, NONE);
    for (uint32_t i = 0; i < BUFFERS; i++)
        give(i);
    sender senders[THREADS];
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++) {
        senders[i] = (sender){.id = i + 1, .packets = packets, .random = 0xd1342543de82ef95ULL + (uint64_t)i};
        pthread_create(&threads[i], NULL, sender_thread, &senders[i]);
    }
    long empty = 0;
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        empty += senders[i].empty;
    }
    int left = count_free();
    assert(left == BUFFERS);
    printf("%d free, %ld times none\n", left, empty);
    return 0;
}
