// The only way out of an endless loop: both conditions around it decide.
#include <stdlib.h>
static int waiting = 3;
static int stopping;
static int rounds;
int main(int argc, char **argv) {
    (void)argv;
    int *nothing = NULL; // SLICE!
    for (;;) {
        while (waiting > 0) { // SLICE!
            if (stopping) { // SLICE!
                *nothing = 1; // FAIL
                return 0;
            }
            stopping = argc > 2; // SLICE!
        }
        waiting--; // SLICE!
        rounds++; // NOSLICE
    }
}
