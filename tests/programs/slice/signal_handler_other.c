// Pair of signal_handler.c: the handler writes something else.
#include <signal.h>
static volatile sig_atomic_t limit = 1;
static volatile sig_atomic_t label;
static void on_user(int number) {
    label = number; // NOSLICE
}
int main(int argc, char **argv) {
    (void)argv;
    limit = argc - 1; // SLICE!
    signal(SIGUSR1, on_user); // NOSLICE
    raise(SIGUSR1); // NOSLICE
    return 10 / limit; // FAIL
}
