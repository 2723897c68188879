// Touches a watched word and does all that goes badly with hits that come by SIGTRAP.
// Its words and its end must be the same with and without us.
#include "hooks.h"
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static volatile long word __attribute__((aligned(64))), other __attribute__((aligned(64)));
static volatile int times;

__attribute__((noinline)) static void store(long value) {
    __asm__ volatile("movq %%rax, (%%rdi)" : : "a"(value), "D"(&word) : "memory");
}
static void store_from(long first, int count) {
    for (int i = 0; i < count; i++) store(first + i);
}
static void say_handler(const char *when) {
    struct sigaction now;
    sigaction(SIGTRAP, 0, &now);
    printf("%s: %s, flags %x\n", when,
           now.sa_handler == SIG_DFL ? "default" : now.sa_handler == SIG_IGN ? "ignored" : "own",
           (unsigned)now.sa_flags & ~0x04000000u);
}
static void counts(int signal, siginfo_t *info, void *context) {
    sigset_t blocked;
    sigprocmask(SIG_BLOCK, 0, &blocked);
    printf("own handler: code %d, USR2 %d, TRAP %d\n", info->si_code,
           sigismember(&blocked, SIGUSR2), sigismember(&blocked, SIGTRAP));
    times++;
}
static void counts_old(int signal) { times++; }
static void install(int flags) {
    struct sigaction action = {0};
    action.sa_sigaction = counts;
    action.sa_flags = flags;
    sigaddset(&action.sa_mask, SIGUSR2);
    sigaction(SIGTRAP, &action, 0);
    say_handler("installed");
}
static void block(int how, int raw) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGTRAP);
    if (raw) syscall(SYS_rt_sigprocmask, how, &set, 0, 8);
    else pthread_sigmask(how, &set, 0);
}
static void stores_in_handler(int signal) { store(1000 + times++); }

// A watch on stack that is not in use, of a thread whose handlers run on that stack:
// our own handler will touch it.
static long *below;
static pthread_barrier_t turn;
static int offsets = 900;
static void *runs_over(void *unused) {
    char here[64];
    below = (long *)(((uintptr_t)here & ~7ul) - 512);
    pthread_barrier_wait(&turn);
    for (int i = 0; i < offsets; i++) {
        pthread_barrier_wait(&turn);
        store(i);
        pthread_barrier_wait(&turn);
    }
    return 0;
}
static void dead_stack(void) {
    pthread_t thread;
    pthread_barrier_init(&turn, 0, 2);
    pthread_create(&thread, 0, runs_over, 0);
    pthread_barrier_wait(&turn);
    for (int i = 0; i < offsets; i++) {
        __failsketch_arm(1, (uint64_t)(below - i), 8);
        pthread_barrier_wait(&turn);
        pthread_barrier_wait(&turn);
    }
    pthread_join(thread, 0);
}

// Hits are on their way to other threads all the time.
static volatile int over;
static void *hammers(void *unused) {
    while (!over) store(5);
    return 0;
}
static void hammered(void) {
    pthread_t thread[4];
    for (int i = 0; i < 4; i++) pthread_create(&thread[i], 0, hammers, 0);
    usleep(3000);
    for (int i = 0; i < 200; i++) {
        struct sigaction now;
        sigaction(SIGTRAP, 0, &now);
        if (now.sa_handler != SIG_DFL) exit(1);
        signal(SIGTRAP, counts_old);
        signal(SIGTRAP, SIG_DFL);
    }
    over = 1;
    for (int i = 0; i < 4; i++) pthread_join(thread[i], 0);
}

// A child debugs us; how often it sees us stop for a SIGTRAP.
static int debugged(void) {
    volatile int *shared = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pid_t self = getpid();
    prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
    pid_t child = fork();
    if (!child) {
        int status;
        if (ptrace(PTRACE_SEIZE, self, 0, 0)) _exit(1);
        shared[0] = 1;
        while (waitpid(self, &status, __WALL) == self && WIFSTOPPED(status)) {
            if (WSTOPSIG(status) == SIGTRAP && status >> 16 == 0) shared[1]++;
            ptrace(PTRACE_CONT, self, 0, status >> 16 ? 0 : WSTOPSIG(status));
        }
        _exit(0);
    }
    while (!shared[0]) usleep(1000);
    usleep(800000);
    store_from(10, 3);
    int stops = shared[1];
    kill(child, SIGKILL);
    waitpid(child, 0, 0);
    return stops;
}

int main(int argc, char **argv) {
    const char *how = argc > 1 ? argv[1] : "";
    setbuf(stdout, 0);
    __failsketch_arm(0, (uint64_t)&word, 8);
    store_from(1, 3);
    if (!strcmp(how, "handles")) {
        say_handler("before");
        install(SA_SIGINFO);
        raise(SIGTRAP);
        __asm__ volatile("int3");
        store_from(10, 3);
        raise(SIGTRAP);
        printf("%d times\n", times);
        printf("was %s\n", signal(SIGTRAP, SIG_DFL) == (void *)counts ? "own" : "other");
        say_handler("after");
        return 41;
    }
    if (!strcmp(how, "handles-once")) {
        install(SA_SIGINFO | SA_RESETHAND);
        raise(SIGTRAP);
        say_handler("after");
        raise(SIGTRAP);
        return 1;
    }
    if (!strcmp(how, "handles-the-old-way")) {
        signal(SIGTRAP, counts_old);
        say_handler("installed");
        raise(SIGTRAP);
        store_from(10, 3);
        raise(SIGTRAP);
        return 40 + times;
    }
    if (!strcmp(how, "ignores")) {
        signal(SIGTRAP, SIG_IGN);
        say_handler("ignored");
        store_from(10, 3);
        raise(SIGTRAP);
        signal(SIGTRAP, SIG_DFL);
        store_from(20, 3);
        return 43;
    }
    if (!strcmp(how, "dies")) {
        __asm__ volatile("int3");
        return 1;
    }
    if (!strcmp(how, "blocks")) {
        block(SIG_BLOCK, 0);
        store_from(10, 5);
        block(SIG_UNBLOCK, 0);
        store_from(20, 5);
        return 44;
    }
    if (!strcmp(how, "waits")) {
        struct timespec now = {0};
        siginfo_t info;
        sigset_t set;
        block(SIG_BLOCK, 0);
        sigemptyset(&set);
        sigaddset(&set, SIGTRAP);
        store_from(10, 5);
        printf("nothing: %d\n", sigtimedwait(&set, &info, &now) < 0 && errno == EAGAIN);
        union sigval value = {.sival_int = 77};
        sigqueue(getpid(), SIGTRAP, value);
        store_from(20, 5);
        printf("waited: %d", sigwaitinfo(&set, &info));
        printf(", code %d, value %d\n", info.si_code, info.si_value.sival_int);
        printf("nothing: %d\n", sigtimedwait(&set, &info, &now) < 0 && errno == EAGAIN);
        int number = 0;
        kill(getpid(), SIGTRAP);
        sigwait(&set, &number);
        printf("waited: %d\n", number);
        return 45;
    }
    if (!strcmp(how, "blocks-unseen")) {
        block(SIG_BLOCK, 1);
        store_from(10, 5);
        block(SIG_UNBLOCK, 1);
        store_from(20, 2);
        return 46;
    }
    if (!strcmp(how, "blocks-in-handlers")) {
        struct sigaction action = {.sa_handler = stores_in_handler};
        sigfillset(&action.sa_mask);
        sigaction(SIGUSR1, &action, 0);
        for (int i = 0; i < 40; i++) raise(SIGUSR1);
        return times;
    }
    if (!strcmp(how, "forks")) {
        int status;
        pid_t child = fork();
        if (!child) {
            store_from(10, 5);
            signal(SIGTRAP, counts_old);
            raise(SIGTRAP);
            execl("/bin/sh", "sh", "-c", times == 1 ? "exit 9" : "exit 8", (char *)0);
        }
        waitpid(child, &status, 0);
        store_from(20, 3);
        return 50 + WEXITSTATUS(status);
    }
    if (!strcmp(how, "two")) {
        __failsketch_arm(2, (uint64_t)&other, 8);
        for (long i = 0; i < 3; i++) {
            store(10 + i);
            __asm__ volatile("movq %%rax, (%%rdi)" : : "a"(20 + i), "D"(&other) : "memory");
        }
        return 52;
    }
    if (!strcmp(how, "filters")) {
        struct sock_filter allow = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
        struct sock_fprog filter = {1, &allow};
        prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
        if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter)) return 1;
        usleep(800000);
        store_from(10, 3);
        return 51;
    }
    if (!strcmp(how, "hammered")) {
        hammered();
        return 48;
    }
    if (!strcmp(how, "debugged")) {
        printf("%d stops\n", debugged());
        return 49;
    }
    if (!strcmp(how, "dead-stack")) {
        dead_stack();
        return 47;
    }
    return 2;
}
