// Dies in the way its first argument names.
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#define FUNCTION __attribute__((noinline)) 

FUNCTION int dereference(volatile int *p) { return *p; }
FUNCTION int caller_of_dereference(volatile int *p) { return dereference(p) + 1; }
static void *crashing_thread(void *p) {
    printf("thread %d\n", gettid());
    fflush(stdout);
    return (void *)(long)caller_of_dereference(p);
}
FUNCTION int overflow(volatile int depth) {
    volatile char room[4096];
    room[depth % sizeof room] = depth;
    return overflow(depth + 1) + room[depth % sizeof room];
}
FUNCTION void gives_up(void) { abort(); }
FUNCTION int calls_through(int (*volatile function)(void)) { return function() + 1; }

int main(int argc, char **argv) {
    const char *how = argc > 1 ? argv[1] : "";
    if (!strcmp(how, "exit")) return atoi(argv[2]);
    if (!strcmp(how, "thread")) {
        pthread_t thread;
        pthread_create(&thread, 0, crashing_thread, (void *)atol(argv[2]));
        pthread_join(thread, 0);
    }
    if (!strcmp(how, "overflow")) return overflow(0);
    if (!strcmp(how, "abort")) gives_up();
    if (!strcmp(how, "null-call")) return calls_through(0);
    if (!strcmp(how, "divide")) { volatile int zero = 0; return 1 / zero; }
    if (!strcmp(how, "illegal")) __builtin_trap();
    if (!strcmp(how, "breakpoint")) __asm__ volatile("int3");
    if (!strcmp(how, "raise")) raise(atoi(argv[2]));
    if (!strcmp(how, "own-handler")) { signal(SIGSEGV, SIG_IGN); raise(SIGSEGV); return 3; }
    if (!strcmp(how, "unlinked")) { unlink(argv[0]); return caller_of_dereference(0); }
    if (!strcmp(how, "child")) {
        // A forked child crashes; the parent is well.
        pid_t child = fork();
        if (child == 0) return dereference(0);
        int status;
        waitpid(child, &status, 0);
        return WIFSIGNALED(status) ? WTERMSIG(status) : 99;
    }
    return 0;
}
