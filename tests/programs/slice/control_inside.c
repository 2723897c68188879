// The failing statement runs under a condition.
#include <stdlib.h>
int main(int argc, char **argv) {
    int mode = argc * 2; // SLICE! NOTRACK
    int colour = argc;   // NOSLICE
    int *nothing = NULL; // SLICE!
    if (colour == 3)     // NOSLICE NOTRACK
        argv = NULL;     // NOSLICE
    if (mode == 2) {     // SLICE! TRACK
        *nothing = 1;    // FAIL TRACK
    }
    return argv == NULL;
}
