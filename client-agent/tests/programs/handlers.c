// Installs its own handlers for crash signals in every way there is, and says what
// they see. Its words must be the same with and without us.
#include "hooks.h"
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>
#define FUNCTION __attribute__((noinline))

static char *page;
static sigjmp_buf way_out;
static char alternate[65536];
static volatile int depth, times;
static volatile long watched;

FUNCTION static int dereference(volatile int *p) { return *p; }
FUNCTION static int caller_of_dereference(volatile int *p) { return dereference(p) + 1; }

static void say(const char *text) { write(1, text, strlen(text)); }
static void say_blocked(void) {
    sigset_t blocked;
    sigprocmask(SIG_BLOCK, 0, &blocked);
    for (int n = 1; n < 64; n++)
        if (sigismember(&blocked, n)) {
            char text[] = {' ', '0' + n / 10, '0' + n % 10, 0};
            say(text);
        }
    say(" blocked\n");
}
static void say_stack(void) {
    char here;
    say(&here >= alternate && &here < alternate + sizeof alternate ? "alternate stack\n" : "own stack\n");
}
static void opens(int signal, siginfo_t *info, void *context) {
    times++;
    say(info->si_addr == page ? "fault at the page" : "fault elsewhere");
    say(info->si_code == SEGV_ACCERR ? ", no access\n" : "\n");
    say_blocked();
    say_stack();
    mprotect(page, 4096, PROT_READ | PROT_WRITE);
}
static void jumps(int signal) { siglongjmp(way_out, 1); }
static void leaves(int signal) { say("leaving\n"); _exit(7); }
static void reraises(int number) {
    say("reporting\n");
    signal(number, SIG_DFL);
    raise(number);
}
static void counts(int signal) { times++; }
static void nests(int signal) {
    say_blocked();
    if (++depth > 1) say("nested\n");
    if (++times < 4) raise(signal);
    depth--;
}
static void steps_over(int signal, siginfo_t *info, void *context) {
    ucontext_t *c = context;
    c->uc_mcontext.gregs[REG_RIP] += 2; // ud2
    times++;
}

static void install(int number, void *handler, int flags) {
    struct sigaction action = {0}, was, now;
    action.sa_sigaction = handler;
    action.sa_flags = flags;
    sigaddset(&action.sa_mask, SIGUSR2);
    sigaction(number, &action, &was);
    sigaction(number, 0, &now);
    printf("was %s, is %s, flags %x, USR2 %d\n", was.sa_handler == SIG_DFL ? "default" : "other",
           now.sa_sigaction == handler ? "ours" : "other", (unsigned)now.sa_flags & ~0x04000000u,
           sigismember(&now.sa_mask, SIGUSR2));
    fflush(stdout);
}

int main(int argc, char **argv) {
    const char *how = argc > 1 ? argv[1] : "";
    __failsketch_call(1);
    page = mmap(0, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (!strcmp(how, "repairs") || !strcmp(how, "repairs-on-alternate-stack")) {
        int flags = SA_SIGINFO;
        if (strcmp(how, "repairs")) {
            stack_t stack = {alternate, 0, sizeof alternate};
            sigaltstack(&stack, 0);
            flags |= SA_ONSTACK;
        }
        install(SIGSEGV, opens, flags);
        for (int i = 0; i < 3; i++) {
            mprotect(page, 4096, PROT_NONE);
            *page = 1;
        }
        return times == 3 ? 11 : 12;
    }
    if (!strcmp(how, "jumps")) {
        install(SIGSEGV, jumps, 0);
        for (int i = 0; i < 3; i++)
            if (!sigsetjmp(way_out, 1)) dereference(0);
        say_blocked();
        return 13;
    }
    if (!strcmp(how, "leaves")) { install(SIGSEGV, leaves, 0); caller_of_dereference(0); }
    if (!strcmp(how, "reraises")) { install(SIGSEGV, reraises, 0); caller_of_dereference(0); }
    if (!strcmp(how, "reraises-old")) { signal(SIGSEGV, reraises); caller_of_dereference(0); }
    if (!strcmp(how, "reraises-sysv")) { sysv_signal(SIGSEGV, reraises); caller_of_dereference(0); }
    if (!strcmp(how, "once")) {
        install(SIGSEGV, counts, SA_RESETHAND);
        raise(SIGSEGV);
        printf("%d\n", times);
        fflush(stdout);
        caller_of_dereference(0);
    }
    if (!strcmp(how, "nests")) { install(SIGBUS, nests, SA_NODEFER); raise(SIGBUS); return depth; }
    if (!strcmp(how, "does-not-nest")) { install(SIGBUS, nests, 0); raise(SIGBUS); return depth; }
    if (!strcmp(how, "breakpoints")) {
        install(SIGTRAP, counts, 0);
        __failsketch_arm(0, (uint64_t)&watched, 8);
        for (int i = 0; i < 5; i++) {
            watched = i;
            __asm__ volatile("int3");
        }
        return times;
    }
    if (!strcmp(how, "steps-over")) {
        install(SIGILL, steps_over, SA_SIGINFO);
        for (int i = 0; i < 4; i++) __asm__ volatile("ud2");
        return times;
    }
    if (!strcmp(how, "aborts")) { install(SIGABRT, counts, 0); abort(); }
    if (!strcmp(how, "changes-its-mind")) {
        // Back to the default: the crash is as if there had never been a handler.
        install(SIGSEGV, leaves, 0);
        printf("%d\n", signal(SIGSEGV, SIG_IGN) == leaves);
        printf("%d\n", raise(SIGSEGV));
        printf("%d\n", signal(SIGSEGV, SIG_DFL) == SIG_IGN);
        fflush(stdout);
        caller_of_dereference(0);
    }
    if (!strcmp(how, "wrong")) {
        struct sigaction action = {0};
        printf("%d %d %d\n", sigaction(SIGKILL, &action, 0), sigaction(99, &action, 0),
               signal(SIGKILL, SIG_IGN) == SIG_ERR);
    }
    return 0;
}
