/* What a clone must get right: everything that code can refer to. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef WITHOUT_THREAD_LOCALS
#define __thread
#endif

int shared = 3;
static int counter;
static __thread int per_thread = 5;
__thread long zero_per_thread;
static int *pointer_per_program = &counter;
static __thread int *pointer_per_thread = &shared;
static const char *const names[] = {"a", "bb", "ccc"};
extern int absent(int) __attribute__((weak));
static jmp_buf saved;

struct wide {
    long a, b, c;
    double d;
};

__attribute__((noinline)) static int recursive(int n)
{
    counter++;
    per_thread++;
    zero_per_thread += n;
    return n < 2 ? 1 : recursive(n - 1) + recursive(n - 2);
}

__attribute__((noinline)) int choose(int k)
{
    static int calls;
    char b[16];
    calls++;
    memcpy(b, "hello world", 12);
    switch (k) {
    case 0: return recursive(5);
    case 1: puts("one"); return 3;
    case 2: printf("%s\n", names[k]); return 9;
    case 3: return shared * 7;
    case 4: return 77 + b[k & 15];
    case 5: return *pointer_per_program + *pointer_per_thread;
    }
    return (int)strlen(b) + k + calls;
}

__attribute__((noinline)) static int sum(int count, ...)
{
    va_list list;
    double total = 0;
    va_start(list, count);
    for (int i = 0; i < count; i++)
        total += i % 2 ? va_arg(list, double) : va_arg(list, int);
    va_end(list);
    return (int)total;
}

__attribute__((noinline)) static struct wide widen(struct wide w, double by)
{
    w.a += w.b * w.c;
    w.d = sqrt(w.d * by) + 0.5;
    return w;
}

__attribute__((noinline)) static const char *literal(int again)
{
    return again ? "the same" : "another";
}

__attribute__((noinline)) static int is_literal(const char *text)
{
    return text == literal(1);
}

__attribute__((noinline)) static void jump_back(int value)
{
    if (value > 2)
        longjmp(saved, value);
}

__attribute__((noinline)) static int land(int value)
{
    volatile int before = value * 2;
    int got = setjmp(saved);
    if (got)
        return before + got;
    jump_back(value);
    return -1;
}

static int compare(const void *left, const void *right)
{
    return *(const int *)left - *(const int *)right;
}

__attribute__((noinline)) static int sorted(void)
{
    int values[] = {9, 4, 7, 1, 8};
    qsort(values, 5, sizeof *values, compare);
    return values[0] * 1000 + values[2] * 100 + values[4];
}

__attribute__((constructor)) static void early(void)
{
    counter += 100;
}

static void late(void)
{
    puts("late");
}

int main(int argc, char **argv)
{
    int (*volatile pointer)(int) = choose;
    struct wide w = {1, 2, 3, 4.5};
    int total = 0;
    atexit(late);
    for (int i = 0; i < 8; i++)
        total += pointer(i);
    w = widen(w, 2);
    printf("%d %d %d %ld %d\n", total, counter, per_thread, zero_per_thread, pointer == choose);
    printf("%ld %.3f %d\n", w.a, w.d, sum(4, 1, 2.5, 3, 4.5));
    printf("%d %d %d\n", is_literal(literal(1)), is_literal(literal(0)), literal(1) == literal(1));
    printf("%d %d %d\n", land(1), land(7), sorted());
    printf("%d %s %d\n", absent != 0, argc > 1 ? argv[1] : "none", getenv("FAILSKETCH_FD") != 0);
    fprintf(stderr, "to stderr\n");
    return argc + 40;
}
