// Pair of signal_sigaction.c: the handler uses the signal's number, and the
// three-argument form is installed by a function that gets the handler.
#include <signal.h>
#include <stddef.h>
static int rest;
static int base;
static void on_user(int number, siginfo_t *info, void *context) {
    rest = 10 / (number - 10); // FAIL
}
static void install(int number, void (*handler)(int, siginfo_t *, void *)) {
    struct sigaction action;
    action.sa_flags = SA_SIGINFO; // NOSLICE
    action.sa_sigaction = handler; // SLICE!
    sigaction(number, &action, NULL); // SLICE!
}
int main(int argc, char **argv) {
    (void)argv;
    int wanted = argc + 9; // SLICE!
    base = argc; // NOSLICE
    install(wanted, on_user); // SLICE!
    return rest; // NOSLICE
}
