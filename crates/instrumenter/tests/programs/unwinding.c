/* Steps through a hooked function, an instruction at a time, and unwinds the stack from each. */
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <ucontext.h>
#include <unwind.h>

static void *caller;
static long steps, lost;
static volatile int over;
static volatile long table[64], sum;
static volatile double scale;

static _Unwind_Reason_Code frame(struct _Unwind_Context *context, void *found)
{
    if ((void *)_Unwind_GetIP(context) == caller)
        *(int *)found = 1;
    return _URC_NO_REASON;
}

static void step(int signal, siginfo_t *info, void *context)
{
    (void)signal, (void)info;
    if (over) {
        ((ucontext_t *)context)->uc_mcontext.gregs[REG_EFL] &= ~0x100;
        return;
    }
    int found = 0;
    _Unwind_Backtrace(frame, &found);
    steps++;
    lost += !found;
}

__attribute__((noinline)) static void hooked(int n)
{
    long value = table[n & 63];
    if (value > 7)
        sum += value;
    else
        table[n & 63] = value + 1;
    scale = scale * 1.5 + value;
}

__attribute__((noinline)) static void outer(int n, int stepping)
{
    caller = __builtin_return_address(0);
    over = 0;
    if (stepping)
        __asm__ volatile("pushfq\n\torq $0x100, (%%rsp)\n\tpopfq" ::: "memory", "cc");
    hooked(n);
    over = 1;
}

int main(int argc, char **argv)
{
    (void)argc, (void)argv;
    struct sigaction action = {.sa_sigaction = step, .sa_flags = SA_SIGINFO};
    sigaction(SIGTRAP, &action, 0);
    int found = 0;
    caller = 0;
    _Unwind_Backtrace(frame, &found);
    for (int n = 0; n < 200000; n++) {
        outer(n, n < 4 || n > 199996);
        __asm__ volatile("" ::: "memory");
    }
    printf("%ld lead nowhere\n", lost);
    fprintf(stderr, "%ld", steps);
    return lost != 0;
}
