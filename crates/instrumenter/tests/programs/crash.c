/* Dies in a function that a plan hooks, and says by whom it was called. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <execinfo.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static int *volatile nowhere;

static void show(int signal)
{
    void *frames[32];
    int count = backtrace(frames, 32);
    Dl_info self;
    char *base = dladdr((void *)show, &self) ? self.dli_fbase : 0;
    for (int i = 0; i < count; i++)
        printf("%lx\n", (unsigned long)((char *)frames[i] - base));
    fflush(stdout);
    _exit(signal);
}

__attribute__((noinline)) int tiny(int *p)
{
    return *p;
}

__attribute__((noinline)) int inner(int depth)
{
    if (depth == 0)
        return tiny(nowhere) + 1;
    return inner(depth - 1) * 3;
}

__attribute__((noinline)) int outer(int depth)
{
    return inner(depth) + 1;
}

int main(int argc, char **argv)
{
    void *warm[1];
    backtrace(warm, 1);
    signal(SIGSEGV, show);
    return outer(argc + 1);
}
