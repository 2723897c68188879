// An object that a program opens while it runs, and closes again.
#include "hooks.h"
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

void host_event(unsigned site);

__attribute__((constructor)) static void loaded(void) { host_event(40); }

// The program's function, by a pointer and by its name, and a hook of our own.
void plugin_calls(void (*event)(unsigned)) {
    event(41);
    host_event(42);
    __failsketch_call(61);
}

__attribute__((noinline)) static int inner_faults(volatile int *at) { return *at; }
int plugin_faults(volatile int *at) { return inner_faults(at) + 1; }

void plugin_writes(volatile long *word, long value) {
    __asm__ volatile("movq %%rax, (%%rdi)" : : "a"(value), "D"(word) : "memory");
}

// What C++ makes of a thread_local object with a destructor.
extern int __cxa_thread_atexit_impl(void (*)(void *), void *, void *);
extern void *__dso_handle;
static void thread_ends(void *unused) { host_event(44); }
static void *works(void *unused) {
    host_event(43);
    __cxa_thread_atexit_impl(thread_ends, 0, &__dso_handle);
    return 0;
}
void plugin_threads(void) {
    for (int i = 0; i < 3; i++) {
        pthread_t thread;
        pthread_create(&thread, 0, works, 0);
        pthread_join(thread, 0);
    }
}

static sigjmp_buf way_out;
static struct sigaction before;
static int installed, stays;
static void jumps(int signal) { siglongjmp(way_out, 1); }
void plugin_survives(int handler_stays) {
    struct sigaction action = {.sa_handler = jumps};
    stays = handler_stays;
    installed = !sigaction(SIGSEGV, &action, &before);
    dprintf(1, "was %s\n", before.sa_handler == SIG_DFL ? "default" : "other");
    if (!stays && !sigsetjmp(way_out, 1)) plugin_faults((void *)48);
}
__attribute__((destructor)) static void unloaded(void) {
    if (installed && !stays) {
        sigaction(SIGSEGV, &before, &before);
        dprintf(1, "was %s\n", before.sa_handler == jumps ? "ours" : "other");
    }
    host_event(45);
}
