// Ends, forks and hides in the way its first argument names, with hooks on the way.
#define _GNU_SOURCE
#include "hooks.h"
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#define FUNCTION __attribute__((noinline))

static volatile long word __attribute__((aligned(8)));
static void record(long count) {
    for (long i = 0; i < count; i++) __failsketch_access(7, 4, 0x1000, i, i + 1, i + 2);
}
FUNCTION int overflow(volatile int depth) {
    volatile char room[4096];
    room[depth % sizeof room] = depth;
    return overflow(depth + 1) + room[depth % sizeof room];
}
FUNCTION int dereference(volatile int *p) { return *p; }
static void *overflowing_thread(void *unused) {
    record(2);
    overflow(0);
    return 0;
}
static void faulty_handler(int signal) { record(1); dereference((int *)8); }
static void leaving_handler(int signal) { _exit(7); }
static void giving_up_handler(int number) { signal(number, SIG_DFL); }
static pthread_barrier_t together;
static void *crashing_thread(void *unused) {
    record(1);
    pthread_barrier_wait(&together);
    dereference((int *)24);
    return 0;
}
static void *exiting_thread(void *unused) {
    record(5);
    _exit(6);
}
static int cloned(void *unused) {
    record(1000);
    return 0;
}
// Processor time, without a system call: none is allowed any more.
static void spin(void) {
    for (unsigned long i = 0; i < 30000000; i++) __asm__ volatile("pause" : : : "memory");
}
static void kill_on(long forbidden) {
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_exit_group, 2, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_rt_sigreturn, 1, 0),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof code / sizeof *code, code};
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

// Runs before every constructor.
static void early_handler(int signal) { _exit(9); }
static void early(int argc, char **argv, char **envp) {
    if (argc > 1 && !strcmp(argv[1], "handler-before-us")) signal(SIGSEGV, early_handler);
}
__attribute__((section(".preinit_array"), used)) static void (*early_entry)(int, char **, char **) = early;

int main(int argc, char **argv) {
    const char *how = argc > 1 ? argv[1] : "";
    pthread_t thread[2];
    record(3);
    if (!strcmp(how, "overflow-in-thread")) {
        pthread_create(thread, 0, overflowing_thread, 0);
        pthread_join(*thread, 0);
    }
    if (!strcmp(how, "crash-in-handler")) { signal(SIGUSR1, faulty_handler); raise(SIGUSR1); }
    if (!strcmp(how, "abort-under-lock")) {
        pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
        pthread_mutex_lock(&lock);
        abort();
    }
    if (!strcmp(how, "bad-stack"))
        __asm__ volatile("mov $0x123450, %%rsp\n\tpush %%rax" : : : "memory");
    if (!strcmp(how, "kill")) raise(SIGKILL);
    if (!strcmp(how, "stop-trap")) raise(SIGTRAP);
    if (!strcmp(how, "own-handler-leaves")) { signal(SIGSEGV, leaving_handler); dereference(0); }
    if (!strcmp(how, "own-handler-gives-up")) { signal(SIGSEGV, giving_up_handler); dereference(0); }
    if (!strcmp(how, "handler-before-us")) dereference(0);
    if (!strcmp(how, "two-crashes")) {
        pthread_barrier_init(&together, 0, 2);
        for (int i = 0; i < 2; i++) pthread_create(&thread[i], 0, crashing_thread, 0);
        for (int i = 0; i < 2; i++) pthread_join(thread[i], 0);
    }
    if (!strcmp(how, "exit-in-thread")) {
        pthread_create(thread, 0, exiting_thread, 0);
        pthread_join(*thread, 0);
    }
    if (!strcmp(how, "exec")) execl("/bin/sh", "sh", "-c", "exit 5", (char *)0);
    if (!strcmp(how, "vfork")) {
        if (vfork() == 0) _exit(0);
        wait(0);
        record(2);
        return 4;
    }
    if (!strcmp(how, "raw-clone")) {
        // Shares memory and thread pointer with us, and runs at the same time.
        static char stack[65536] __attribute__((aligned(16)));
        int child = clone(cloned, stack + sizeof stack, CLONE_VM | CLONE_FILES | SIGCHLD, 0);
        record(1000);
        waitpid(child, 0, 0);
        return 3;
    }
    if (!strcmp(how, "strict-sandbox")) {
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT);
        spin();
        record(4);
        __failsketch_arm(0, (uint64_t)&word, 8);
        syscall(SYS_exit, 8);
    }
    if (!strcmp(how, "strict-sandbox-at-once")) {
        // Strict mode forbids the time-stamp counter, too.
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT);
        for (int i = 0; i < 100; i++) __failsketch_branch(1, 0);
        __failsketch_sync_begin(2, 64);
        syscall(SYS_exit, 8);
    }
    if (!strcmp(how, "crash-in-sandbox")) { kill_on(0); spin(); record(1); dereference((int *)40); }
    if (!strcmp(how, "kill-in-sandbox")) { kill_on(0); spin(); getppid(); }
    return 2;
}
