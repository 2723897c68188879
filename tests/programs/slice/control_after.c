// Pair of control_inside.c: the condition is over before the failing statement.
#include <stdlib.h>
int main(int argc, char **argv) {
    int mode = argc * 2; // NOSLICE NOTRACK
    int *nothing = NULL; // SLICE!
    if (mode == 2) {     // NOSLICE NOTRACK
        argv = NULL;     // NOSLICE
    }
    *nothing = 1;        // FAIL TRACK
    return argv == NULL;
}
