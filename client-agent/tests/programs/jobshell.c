// A shell with one job on a terminal of its own: says what happens to the job.
// jobshell foreground|background COMMAND…
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

static void give_terminal_to(pid_t group) {
    signal(SIGTTOU, SIG_IGN);
    tcsetpgrp(0, group);
    signal(SIGTTOU, SIG_DFL);
}

int main(int argc, char **argv) {
    int foreground = !strcmp(argv[1], "foreground");
    setvbuf(stdout, 0, _IONBF, 0);
    // Standard input is the terminal; it becomes the session's.
    setsid();
    if (ioctl(0, TIOCSCTTY, 0)) return 99;
    signal(SIGINT, SIG_IGN);
    signal(SIGQUIT, SIG_IGN);
    pid_t job = fork();
    if (job == 0) {
        setpgid(0, 0);
        if (foreground) give_terminal_to(getpid());
        signal(SIGINT, SIG_DFL);
        signal(SIGQUIT, SIG_DFL);
        execvp(argv[2], argv + 2);
        _exit(127);
    }
    setpgid(job, job);
    if (foreground) give_terminal_to(job);
    for (;;) {
        int status;
        if (waitpid(job, &status, WUNTRACED) != job) return 98;
        if (WIFEXITED(status)) { printf("[exit %d]\n", WEXITSTATUS(status)); return 0; }
        if (WIFSIGNALED(status)) { printf("[killed by %d]\n", WTERMSIG(status)); return 0; }
        printf("[stopped by %d]\n", WSTOPSIG(status));
        give_terminal_to(getpgrp());
        // As `fg` does.
        give_terminal_to(job);
        kill(-job, SIGCONT);
    }
}
