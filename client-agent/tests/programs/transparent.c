// Shows what a program can see of its surroundings.
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
extern char **environ;
static void on_term(int signal) { _exit(signal == SIGTERM ? 5 : 6); }
static void on_any(int signal) { _exit(signal); }

int main(int argc, char **argv) {
    if (argc > 1 && !strcmp(argv[1], "grandchild")) {
        // The environment that children get, in order.
        execve("/usr/bin/env", (char *[]){"env", 0}, environ);
    }
    if (argc > 1 && !strcmp(argv[1], "wait-for-term")) {
        signal(SIGTERM, on_term);
        puts("ready");
        fflush(stdout);
        for (;;) pause();
    }
    if (argc > 1 && !strcmp(argv[1], "wait-for-any")) {
        // Says which signal it was by its exit status.
        for (int s = 1; s < 32; s++) signal(s, on_any);
        alarm(60); // not for ever, should the signal be lost
        puts("ready");
        fflush(stdout);
        for (;;) pause();
    }
    if (argc > 1 && !strcmp(argv[1], "streams")) {
        // Which of the first eight descriptors are open, as an exit status.
        int open_ones = 0;
        for (int fd = 0; fd < 8; fd++) open_ones |= (fcntl(fd, F_GETFD) >= 0) << fd;
        return open_ones;
    }
    printf("first free descriptor %d\n", open("/dev/null", O_RDONLY));
    struct sigaction action;
    sigaction(SIGPIPE, 0, &action);
    printf("SIGPIPE %s\n", action.sa_handler == SIG_DFL ? "default" : "other");
    sigaction(SIGCHLD, 0, &action);
    printf("SIGCHLD %s\n", action.sa_handler == SIG_DFL ? "default" : "other");
    sigset_t mask;
    sigprocmask(SIG_BLOCK, 0, &mask);
    for (int s = 1; s < 32; s++)
        if (sigismember(&mask, s)) printf("blocked %d\n", s);
    for (int i = 0; i < argc; i++) printf("argument %s\n", argv[i]);
    char line[100];
    while (fgets(line, sizeof line, stdin)) printf("read %s", line);
    return 0;
}
