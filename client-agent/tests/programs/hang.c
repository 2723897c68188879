/* Programs that stand still: each in another way. */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/select.h>
#include <unistd.h>

static pthread_mutex_t left = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t right = PTHREAD_MUTEX_INITIALIZER;
static pthread_barrier_t both;

__attribute__((noinline)) static void take_right(void) { pthread_mutex_lock(&right); }
__attribute__((noinline)) static void take_left(void) { pthread_mutex_lock(&left); }

static void *other_order(void *unused) {
    pthread_mutex_lock(&right);
    pthread_barrier_wait(&both);
    take_left();
    return unused;
}

static void *wait_for_input(void *unused) {
    char byte;
    return read(0, &byte, 1) == 1 ? unused : NULL;
}

/* Whether somebody traces the process. */
static int traced(pid_t pid) {
    char text[4096];
    snprintf(text, sizeof text, "/proc/%d/status", pid);
    FILE *status = fopen(text, "r");
    int tracer = 0;
    while (status && fgets(text, sizeof text, status)) sscanf(text, "TracerPid: %d", &tracer);
    if (status) fclose(status);
    return tracer != 0;
}

/* Waits for a vfork: no signal but a killing one wakes the thread, and none stops it. A
   helper sees when the agent wants to stop it, and does `then`. */
static void sleep_deeply(const char *then) {
    pid_t own = getpid();
    if (fork() == 0) {
        while (!traced(own)) usleep(1000);
        if (!strcmp(then, "kill")) kill(own, SIGKILL);
        _exit(0);
    }
    /* The child borrows our memory, so it touches none. It ends after the helper, and long
       after the agent has given up. */
    if (vfork() == 0) {
        sleep(4);
        _exit(0);
    }
}

int main(int count, char **words) {
    const char *how = count > 1 ? words[1] : "deadlock";
    pthread_t thread;
    if (!strcmp(how, "deadlock")) {
        pthread_barrier_init(&both, NULL, 2);
        pthread_create(&thread, NULL, other_order, NULL);
        pthread_mutex_lock(&left);
        pthread_barrier_wait(&both);
        take_right();
    } else if (!strcmp(how, "service")) {
        /* One thread waits for the other, which waits for the world. */
        pthread_create(&thread, NULL, wait_for_input, NULL);
        pthread_join(thread, NULL);
        puts("served");
    } else if (!strcmp(how, "deep-sleep")) {
        sleep_deeply("wait");
        puts("awake");
        return 7;
    } else if (!strcmp(how, "killed-in-sleep")) {
        sleep_deeply("kill");
    } else {
        /* Busy, then done: never a hang. */
        volatile unsigned long turns = 0;
        while (turns < 800000000UL) turns++;
    }
    return 0;
}
