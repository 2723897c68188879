/* Calls with arguments of all kinds, strings among them, some in bad places. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

static volatile long sink;

__attribute__((noinline)) static long look(const char *text, long length, short kind)
{
    long sum = kind;
    for (long i = 0; i < length; i++)
        sum += text[i];
    sink += sum;
    return sum;
}

__attribute__((noinline)) static const char *name_of(int n)
{
    return n > 1 ? "a name that is longer than what is kept of it" : "short\n";
}

int main(int argc, char **argv)
{
    long page = 4096;
    char *two = mmap(0, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (two == MAP_FAILED)
        return 1;
    memset(two, 'x', 2 * page);
    mprotect(two + page, page, PROT_NONE);
    char *over = mmap(0, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    strcpy(over + page - 3, "across pages");
    long r = 0;
    r += look(argv[1], 3, 7);
    r += look(two + page - 3, 3, -1);
    r += look(over + page - 3, 12, 2);
    r += look(0, 0, 0);
    r += look((const char *)0xdead0000, 0, 1);
    r += (long)strlen(name_of(argc));
    r += (long)strlen(name_of(0));
    for (int i = 0; i < 1000; i++)
        r += look(argv[1], 1, (short)i);
    return r == 12345;
}
