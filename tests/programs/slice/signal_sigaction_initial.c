// The struct is a constant: the handler is found in its initial value.
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
    struct sigaction action = { .sa_handler = on_user };
    struct sigaction spare = { .sa_handler = on_other };
    limit = argc - 1; // SLICE!
    sigaction(SIGUSR1, &action, NULL); // SLICE!
    sigaction(SIGUSR2, &spare, NULL); // NOSLICE
    return rest; // NOSLICE
}
