/* One thread touches a cell very often. Then others do for the first time, at the same
   statements, and the first one sees what it had not seen before. */
#include <pthread.h>
#include <stdlib.h>

static volatile long cell, usual;

__attribute__((noinline)) static long touch(volatile long *at, long value)
{
    *at = value;
    if (*at == 77)
        return 1;
    usual++;
    return 0;
}

static long rounds;

static void *late(void *value)
{
    touch(&cell, (long)value);
    return 0;
}

static void *often(void *value)
{
    for (long i = 0; i < rounds; i++)
        touch(&cell, (long)value);
    return 0;
}

int main(int argc, char **argv)
{
    rounds = atol(argv[1]);
    long others = argc > 2 ? atol(argv[2]) : 1;
    long together = argc > 3 ? atol(argv[3]) : 0;
    long found = 0;
    pthread_t threads[64];
    for (long i = 0; i < rounds; i++)
        found += touch(&cell, 3);
    for (long i = 0; i < others; i++) {
        pthread_create(&threads[i], 0, late, (void *)(1000 + i));
        pthread_join(threads[i], 0);
    }
    for (long i = 0; i < together; i++)
        pthread_create(&threads[i], 0, often, (void *)(2000 + i));
    for (long i = 0; i < together; i++)
        pthread_join(threads[i], 0);
    touch(&cell, 0);
    touch(&cell, -1);
    found += touch(&cell, 77);
    return found != 1;
}
