// The struct that installs the handler is a global with an initial value.
#include <signal.h>
#include <stddef.h>
static volatile int limit = 1;
static int label;
static void on_user(int number) {
    limit = 0; // SLICE!
}
static void on_other(int number) {
    label = number; // NOSLICE
}
static struct sigaction installed = { .sa_handler = on_user };
static struct sigaction spare = { .sa_handler = on_other };
int main(void) {
    sigaction(SIGUSR1, &installed, NULL); // SLICE!
    sigaction(SIGUSR2, &spare, NULL); // NOSLICE
    return 10 / limit; // FAIL
}
