// Pair of endless_loop_exit.c: the failing statement stands after the loops.
#include <stdlib.h>
static int waiting = 3;
static int stopping;
int main(int argc, char **argv) {
    (void)argv;
    int *nothing = NULL; // SLICE!
    for (;;) {
        while (waiting > 0) { // NOSLICE
            if (stopping) // NOSLICE
                goto out;
            stopping = argc > 2; // NOSLICE
        }
        waiting--; // NOSLICE
    }
out:
    *nothing = 1; // FAIL
    return 0;
}
