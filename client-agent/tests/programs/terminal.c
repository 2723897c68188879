// What a program sees of its terminal and of job control, by its first argument.
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

static volatile sig_atomic_t count;
static void on_signal(int signal) { (void)signal; count++; }
/// The signal is held back until somebody waits for it: none is lost before that.
static void handle(int signal) {
    struct sigaction action = {.sa_handler = on_signal};
    sigset_t held;
    sigemptyset(&held);
    sigaddset(&held, signal);
    sigprocmask(SIG_BLOCK, &held, 0);
    sigaction(signal, &action, 0);
}
static void await_signal(void) {
    sigset_t none;
    sigemptyset(&none);
    while (!count) sigsuspend(&none);
    sigprocmask(SIG_SETMASK, &none, 0);
}
static void size(const char *when) {
    struct winsize w;
    ioctl(0, TIOCGWINSZ, &w);
    printf("%s: %d rows, %d columns\n", when, w.ws_row, w.ws_col);
}
static void ready(void) { puts("ready"); }
/// Reads one line, whatever interrupts it.
static int line(char *into, int room) {
    for (;;) {
        ssize_t got = read(0, into, room - 1);
        if (got < 0 && errno == EINTR) continue;
        into[got > 0 ? got : 0] = 0;
        return (int)got;
    }
}

int main(int argc, char **argv) {
    const char *how = argc > 1 ? argv[1] : "";
    char text[100];
    setvbuf(stdout, 0, _IONBF, 0);
    if (!strcmp(how, "look")) {
        printf("terminals %d%d%d\n", isatty(0), isatty(1), isatty(2));
        printf("in the foreground %d\n", tcgetpgrp(0) == getpgrp());
        printf("session has the terminal %d\n", tcgetsid(0) == getsid(0));
        size("size");
        return 4;
    }
    if (!strcmp(how, "resize")) {
        handle(SIGWINCH);
        size("before");
        ready();
        await_signal();
        usleep(200000); // a second one would come in this time
        printf("told %d times\n", (int)count);
        size("after");
        return 0;
    }
    if (!strcmp(how, "read")) {
        ready();
        while (line(text, sizeof text) > 0) printf("read %s", text);
        puts("end of input");
        return 5;
    }
    if (!strcmp(how, "wait")) {
        ready();
        for (;;) pause();
    }
    if (!strcmp(how, "stop-by")) {
        raise(atoi(argv[2]));
        puts("went on");
        return 6;
    }
    if (!strcmp(how, "orderly")) {
        // Puts something in order before it stops, as editors do.
        handle(SIGTSTP);
        ready();
        await_signal();
        usleep(100000);
        puts("in order");
        signal(SIGTSTP, SIG_DFL);
        raise(SIGTSTP);
        puts("back");
        return 7;
    }
    if (!strcmp(how, "unstoppable")) {
        handle(SIGTSTP);
        ready();
        await_signal();
        usleep(200000);
        printf("asked %d times\n", (int)count);
        return 8;
    }
    if (!strcmp(how, "interrupted")) {
        handle(SIGINT);
        ready();
        await_signal();
        usleep(200000);
        printf("interrupted %d times\n", (int)count);
        return 9;
    }
    return 1;
}
