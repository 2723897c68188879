/* A loop that never leaves `main`, and a function that is called again and again. */
#include <stdlib.h>

static volatile long hits, misses;
static int table[64];

__attribute__((noinline)) static void called(int n)
{
    if (table[n & 63] > 7)
        hits++;
    else
        misses++;
}

int main(int argc, char **argv)
{
    long n = argc > 2 ? atol(argv[2]) : 0;
    for (int i = 0; i < 64; i++)
        table[i] = i % 13;
    if (argv[1][0] == 'l') {
        for (long i = 0; i < n; i++) {
            if (table[i & 63] > 7)
                hits++;
            else
                misses++;
        }
    } else {
        for (long i = 0; i < n; i++)
            called((int)i);
    }
    return hits + misses != n;
}
