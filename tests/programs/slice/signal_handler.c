// A handler that signal() installs writes the divisor.
#include <signal.h>
static volatile sig_atomic_t limit = 1;
static volatile sig_atomic_t label;
static void on_user(int number) {
    limit = 0; // SLICE!
    label = number; // NOSLICE
}
int main(void) {
    signal(SIGUSR1, on_user); // SLICE!
    raise(SIGUSR1); // NOSLICE
    return 10 / limit; // FAIL
}
