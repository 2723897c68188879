/* A mailbox with a condition variable: a letter arrives between the reader's look
 * and its sleep, and nobody wakes the reader again.
 *
 * The writer puts a letter into the box and signals, both without the lock. The
 * reader looks at the count under the lock and then waits. If the letter comes
 * after the look and before the wait, the signal finds nobody waiting; if it was
 * the last one, the reader sleeps for ever. The fix puts the letter in and signals
 * under the lock; -DFIXED builds it.
 *
 * A conversation: each answer is posted when the letter before it has been read, so
 * each letter is the last one until then. The next answer is written beforehand.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define LETTER_WORDS 16
#define BOX_SIZE 4
#define ARCHIVE 64

typedef struct {
    uint32_t words[LETTER_WORDS];
    uint32_t checksum;
} letter;

typedef struct {
    pthread_mutex_t lock;
    pthread_cond_t arrived;
    atomic_int letters;
    letter content[BOX_SIZE];
    unsigned posted, fetched;
    uint32_t archive[ARCHIVE];
    unsigned archived, tidied;
} mailbox;

typedef struct {
    const char *name;
    mailbox *in, *out;
    int rounds;
    int begins;
    uint64_t random;
    uint32_t read;
} person;

static mailbox to_anna = {.lock = PTHREAD_MUTEX_INITIALIZER, .arrived = PTHREAD_COND_INITIALIZER};
static mailbox to_bert = {.lock = PTHREAD_MUTEX_INITIALIZER, .arrived = PTHREAD_COND_INITIALIZER};

static uint64_t next_random(person *self)
{
    self->random ^= self->random << 13;
    self->random ^= self->random >> 7;
    self->random ^= self->random << 17;
    return self->random;
}

static uint32_t checksum_of(const letter *l)
{
    uint32_t sum = 2166136261u;
    for (int i = 0; i < LETTER_WORDS; i++)
        sum = (sum ^ l->words[i]) * 16777619u;
    return sum;
}

/* Thinking about what to write takes longer for some letters than for others. */
static letter compose(person *self)
{
    letter l;
    uint64_t random = next_random(self);
    int drafts = 1 + (int)(random % 400);
    for (int draft = 0; draft < drafts; draft++)
        for (int i = 0; i < LETTER_WORDS; i++)
            l.words[i] = (uint32_t)(random = random * 6364136223846793005ULL + 1);
    l.checksum = checksum_of(&l);
    return l;
}

static void post(mailbox *box, letter l)
{
#ifdef FIXED
    pthread_mutex_lock(&box->lock);
    box->content[box->posted++ % BOX_SIZE] = l;
    atomic_fetch_add(&box->letters, 1);
    pthread_cond_signal(&box->arrived);
    pthread_mutex_unlock(&box->lock);
#else
    box->content[box->posted++ % BOX_SIZE] = l;
    atomic_fetch_add(&box->letters, 1);
    pthread_cond_signal(&box->arrived);
#endif
}

/* Orders what has been read since the last time; done when there is nothing to read. */
static void tidy(mailbox *box)
{
    unsigned count = box->archived < ARCHIVE ? box->archived : ARCHIVE;
    for (unsigned i = 1; i < count; i++) {
        uint32_t moved = box->archive[i];
        unsigned at = i;
        for (; at > 0 && box->archive[at - 1] > moved; at--)
            box->archive[at] = box->archive[at - 1];
        box->archive[at] = moved;
    }
    box->tidied = box->archived;
}

static letter fetch(mailbox *box)
{
    pthread_mutex_lock(&box->lock);
    while (atomic_load(&box->letters) == 0) {
        if (box->tidied != box->archived)
            tidy(box);
        pthread_cond_wait(&box->arrived, &box->lock);
    }
    letter l = box->content[box->fetched++ % BOX_SIZE];
    box->archive[box->archived++ % ARCHIVE] = l.checksum;
    atomic_fetch_sub(&box->letters, 1);
    pthread_mutex_unlock(&box->lock);
    return l;
}

static int read_letter(person *self)
{
    letter l = fetch(self->in);
    self->read++;
    return l.checksum == checksum_of(&l);
}

static void *person_thread(void *arg)
{
    person *self = arg;
    letter next = compose(self);
    if (self->begins)
        post(self->out, next);
    for (int round = 0; round < self->rounds; round++) {
        next = compose(self);
        if (!read_letter(self))
            return "a letter was damaged";
        if (!self->begins || round + 1 < self->rounds)
            post(self->out, next);
    }
    return NULL;
}

int main(int argc, char **argv)
{
    int rounds = argc > 1 ? atoi(argv[1]) : 200;
    if (rounds < 1) {
        fprintf(stderr, "usage: mailbox [ROUNDS]\n");
        return 2;
    }
    person people[2] = {
        {.name = "anna", .in = &to_anna, .out = &to_bert, .rounds = rounds, .begins = 1, .random = 11400714819323198485ULL},
        {.name = "bert", .in = &to_bert, .out = &to_anna, .rounds = rounds, .random = 14029467366897019727ULL},
    };
    pthread_t threads[2];
    for (int i = 0; i < 2; i++)
        pthread_create(&threads[i], NULL, person_thread, &people[i]);
    int damaged = 0;
    for (int i = 0; i < 2; i++) {
        void *complaint = NULL;
        pthread_join(threads[i], &complaint);
        if (complaint != NULL) {
            fprintf(stderr, "%s: %s\n", people[i].name, (const char *)complaint);
            damaged = 1;
        }
    }
    printf("%u and %u letters read\n", people[0].read, people[1].read);
    return damaged;
}
