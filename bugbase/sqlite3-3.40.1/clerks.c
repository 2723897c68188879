/* An application of SQLite: clerks enter amounts into one table over one
 * connection, and number the entries by a function of SQL that they share.
 *
 * The application has a lock of its own, a recursive mutex of SQLite's: a clerk
 * holds it while it makes an entry, and the function takes it again. Locks are
 * taken in one order, application, connection, application again, so no clerk
 * ever waits for another in a circle as long as the mutex knows its owner.
 *
 * Usage: clerks CLERKS ENTRIES SEED
 */
#include "sqlite3.h"
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

struct clerk {
    sqlite3 *db;
    sqlite3_stmt *insert;
    int entries;
    uint64_t random;
    pthread_t thread;
};

static sqlite3_mutex *book;
static long last_number;

static uint64_t next_random(struct clerk *clerk)
{
    clerk->random ^= clerk->random << 13;
    clerk->random ^= clerk->random >> 7;
    clerk->random ^= clerk->random << 17;
    return clerk->random;
}

/* number(): what the next entry is called. */
static void number(sqlite3_context *context, int count, sqlite3_value **values)
{
    (void)count;
    (void)values;
    sqlite3_mutex_enter(book);
    sqlite3_result_int64(context, ++last_number);
    sqlite3_mutex_leave(book);
}

static void enter(struct clerk *clerk, int amount)
{
    sqlite3_mutex_enter(book);
    sqlite3_bind_int(clerk->insert, 1, amount);
    sqlite3_step(clerk->insert);
    sqlite3_reset(clerk->insert);
    sqlite3_mutex_leave(book);
}

/* Looks at the next paper. */
static int read_paper(struct clerk *clerk)
{
    uint64_t amount = next_random(clerk);
    int steps = 200 + (int)(amount >> 40) % 4000;
    for (int i = 0; i < steps; i++)
        amount = amount * 6364136223846793005u + 1442695040888963407u;
    return (int)(amount >> 50);
}

static void *work(void *argument)
{
    struct clerk *clerk = argument;
    for (int i = 0; i < clerk->entries; i++)
        enter(clerk, read_paper(clerk));
    return NULL;
}

int main(int argc, char **argv)
{
    if (argc != 4)
        return 2;
    int count = atoi(argv[1]);
    sqlite3 *db;
    if (sqlite3_open_v2(":memory:", &db,
                        SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_FULLMUTEX, NULL))
        return 3;
    book = sqlite3_mutex_alloc(SQLITE_MUTEX_RECURSIVE);
    sqlite3_create_function(db, "number", 0, SQLITE_UTF8, NULL, number, NULL, NULL);
    sqlite3_exec(db, "create table entries(number integer primary key, amount integer)", NULL, NULL,
                 NULL);
    struct clerk *clerks = calloc((size_t)count, sizeof *clerks);
    for (int i = 0; i < count; i++) {
        clerks[i].db = db;
        clerks[i].entries = atoi(argv[2]);
        clerks[i].random = 88172645463325252u + (uint64_t)atoll(argv[3]) * 977 + (uint64_t)i * 7919;
        sqlite3_prepare_v2(db, "insert into entries values (number(), ?)", -1, &clerks[i].insert,
                           NULL);
    }
    for (int i = 0; i < count; i++)
        pthread_create(&clerks[i].thread, NULL, work, &clerks[i]);
    for (int i = 0; i < count; i++)
        pthread_join(clerks[i].thread, NULL);
    for (int i = 0; i < count; i++)
        sqlite3_finalize(clerks[i].insert);
    sqlite3_stmt *sum;
    sqlite3_prepare_v2(db, "select count(*), sum(amount) from entries", -1, &sum, NULL);
    sqlite3_step(sum);
    printf("%d entries, %lld\n", sqlite3_column_int(sum, 0), sqlite3_column_int64(sum, 1));
    int missing = sqlite3_column_int(sum, 0) != count * atoi(argv[2]);
    sqlite3_finalize(sum);
    sqlite3_close(db);
    free(clerks);
    return missing;
}
