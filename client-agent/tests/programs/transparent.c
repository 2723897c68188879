// Shows what a program can see of its surroundings.
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
extern char **environ;
static void on_term(int signal) { _exit(signal == SIGTERM ? 5 : 6); }

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
    printf("first free descriptor %d\n", open("/dev/null", O_RDONLY));
    struct sigaction action;
    sigaction(SIGPIPE, 0, &action);
    printf("SIGPIPE %s\n", action.sa_handler == SIG_DFL ? "default" : "other");
    sigset_t mask;
    sigprocmask(SIG_BLOCK, 0, &mask);
    for (int s = 1; s < 32; s++)
        if (sigismember(&mask, s)) printf("blocked %d\n", s);
    for (int i = 0; i < argc; i++) printf("argument %s\n", argv[i]);
    char line[100];
    while (fgets(line, sizeof line, stdin)) printf("read %s", line);
    return 0;
}
