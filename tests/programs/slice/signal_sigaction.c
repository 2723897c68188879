// The handler lies in a struct: the store of it, and the call that installs it.
#include <signal.h>
#include <stddef.h>
static volatile int limit;
static int rest;
static void on_user(int number) {
    rest = 10 / limit; // FAIL
}
static void on_other(int number) {
    rest = number; // NOSLICE
}
int main(int argc, char **argv) {
    (void)argv;
    struct sigaction action;
    struct sigaction spare;
    limit = argc - 1; // SLICE!
    action.sa_flags = 0; // NOSLICE
    action.sa_handler = on_user; // SLICE!
    spare.sa_handler = on_other; // NOSLICE
    sigaction(SIGUSR1, &action, NULL); // SLICE!
    sigaction(SIGUSR2, &spare, NULL); // NOSLICE
    return rest; // NOSLICE
}
