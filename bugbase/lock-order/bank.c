/* Accounts with a lock each: two transfers in opposite directions wait for each
 * other for ever.
 *
 * transfer() locks the account it takes from and then the one it gives to. Two
 * threads that transfer between the same two accounts in opposite directions can
 * each hold their first lock and wait for the other's. The fix takes the locks in
 * the order of the account numbers; -DFIXED builds it.
 *
 * Tellers work through their own lists of transfers; an auditor at the end checks
 * that no money was lost.
 */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define ACCOUNTS 8
#define TELLERS 2
#define START_BALANCE 1000
#define HISTORY 16

typedef struct {
    int number;
    long balance;
    uint32_t journal;
    int history[HISTORY];
    int history_at;
    pthread_mutex_t lock;
} account;

typedef struct {
    int number;
    int transfers;
    uint64_t random;
    long refused;
} teller;

static account accounts[ACCOUNTS];

static uint64_t next_random(teller *self)
{
    self->random ^= self->random << 13;
    self->random ^= self->random >> 7;
    self->random ^= self->random << 17;
    return self->random;
}

/* The journal is a running checksum of all amounts that went through. */
static uint32_t journal_entry(uint32_t journal, long amount)
{
    for (int i = 0; i < 40; i++)
        journal = (journal ^ (uint32_t)amount) * 16777619u + (uint32_t)i;
    return journal;
}

static void note(account *a, long amount)
{
    a->history[a->history_at] = (int)amount;
    a->history_at = (a->history_at + 1) % HISTORY;
}

/* Checks that the account may give that much. */
static int may_give(account *from, long amount)
{
    from->journal = journal_entry(from->journal, amount);
    return from->balance >= amount;
}

static int transfer(account *from, account *to, long amount)
{
    int done = 0;
#ifdef FIXED
    account *first = from->number < to->number ? from : to;
    account *second = from->number < to->number ? to : from;
    pthread_mutex_lock(&first->lock);
    pthread_mutex_lock(&second->lock);
    int allowed = may_give(from, amount);
#else
    pthread_mutex_lock(&from->lock);
    int allowed = may_give(from, amount);
    pthread_mutex_lock(&to->lock);
#endif
    if (allowed) {
        from->balance -= amount;
        to->balance += amount;
        note(from, -amount);
        note(to, amount);
        to->journal = journal_entry(to->journal, amount);
        done = 1;
    }
    pthread_mutex_unlock(&to->lock);
    pthread_mutex_unlock(&from->lock);
    return done;
}

/* Counts the notes and coins of a transfer: work that holds no lock. */
static uint32_t count_cash(long amount, uint64_t random)
{
    uint32_t sum = (uint32_t)amount;
    int coins = 50 + (int)(random % 400);
    for (int i = 0; i < coins; i++)
        sum = sum * 1664525u + 1013904223u;
    return sum;
}

static void *teller_thread(void *arg)
{
    teller *self = arg;
    uint32_t counted = 0;
    for (int i = 0; i < self->transfers; i++) {
        uint64_t random = next_random(self);
        int from = (int)(random % ACCOUNTS);
        int to = (int)((random >> 16) % ACCOUNTS);
        long amount = 1 + (long)((random >> 32) % 100);
        if (from == to)
            continue;
        counted ^= count_cash(amount, random);
        if (!transfer(&accounts[from], &accounts[to], amount))
            self->refused++;
    }
    return (void *)(uintptr_t)counted;
}

static long audit(void)
{
    long total = 0;
    for (int i = 0; i < ACCOUNTS; i++) {
        pthread_mutex_lock(&accounts[i].lock);
        total += accounts[i].balance;
        pthread_mutex_unlock(&accounts[i].lock);
    }
    return total;
}

int main(int argc, char **argv)
{
    int transfers = argc > 1 ? atoi(argv[1]) : 200;
    if (transfers < 1) {
        fprintf(stderr, "usage: bank [TRANSFERS]\n");
        return 2;
    }
    for (int i = 0; i < ACCOUNTS; i++) {
        accounts[i].number = i;
        accounts[i].balance = START_BALANCE;
        pthread_mutex_init(&accounts[i].lock, NULL);
    }
    teller tellers[TELLERS];
    pthread_t threads[TELLERS];
    for (int i = 0; i < TELLERS; i++) {
        tellers[i] = (teller){.number = i, .transfers = transfers,
                              .random = 0x6a09e667f3bcc909ULL + 104729u * (unsigned)i};
        pthread_create(&threads[i], NULL, teller_thread, &tellers[i]);
    }
    long refused = 0;
    for (int i = 0; i < TELLERS; i++) {
        pthread_join(threads[i], NULL);
        refused += tellers[i].refused;
    }
    long total = audit();
    printf("%ld in all accounts, %ld transfers refused\n", total, refused);
    return total == (long)ACCOUNTS * START_BALANCE ? 0 : 1;
}
