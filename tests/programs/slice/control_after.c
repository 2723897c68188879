// Pair of control_inside.c: the condition is over before the failing statement.
#include <stdlib.h>
int main(int argc, char **argv) {
    int mode = argc * 2; // NOSLICE
    int *nothing = NULL; // SLICE!
    if (mode == 2) {     // NOSLICE
        argv = NULL;     // NOSLICE
    }
    *nothing = 1;        // FAIL
    return argv == NULL;
}
