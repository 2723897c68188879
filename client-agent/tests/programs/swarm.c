// Makes many processes in the way its first argument names, with hooks on the way.
#define _GNU_SOURCE
#include "hooks.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void record(long count) {
    for (long i = 0; i < count; i++) __failsketch_access(7, 4, 0x1000, i, i + 1, i + 2);
}
static void *thread(void *unused) {
    record(3);
    return unused;
}
static void branch_out(int depth) {
    for (int i = 0; i < depth; i++)
        if (fork() == 0) depth--;
    pthread_t one;
    if (!pthread_create(&one, 0, thread, 0)) pthread_join(one, 0);
    record(10);
}

int main(int argc, char **argv) {
    const char *how = argc > 1 ? argv[1] : "";
    long count = argc > 2 ? atol(argv[2]) : 1;
    record(1);
    if (!strcmp(how, "short-lived")) {
        // One after the other: each ends before the next begins.
        int wrong = 0;
        for (long i = 0; i < count; i++) {
            pid_t child = fork();
            if (child == 0) { record(2); _exit(i % 7); }
            int status;
            if (waitpid(child, &status, 0) != child || WEXITSTATUS(status) != i % 7) wrong++;
        }
        record(1);
        return wrong ? 1 : 21;
    }
    if (!strcmp(how, "tree")) {
        // Children that make children; nobody waits for anybody.
        pid_t self = getpid();
        branch_out((int)count);
        return getpid() == self ? 22 : 0;
    }
    if (!strcmp(how, "outliving")) {
        // Children that live on until standard input ends.
        for (long i = 0; i < count; i++)
            if (fork() == 0) {
                char byte;
                close(1);
                close(2);
                record(5);
                while (read(0, &byte, 1) > 0) {}
                _exit(0);
            }
        return 23;
    }
    return 0;
}
