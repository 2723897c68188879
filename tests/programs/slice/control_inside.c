// The failing statement runs under a condition.
#include <stdlib.h>
int main(int argc, char **argv) {
    int mode = argc * 2; // SLICE!
    int colour = argc;   // NOSLICE
    int *nothing = NULL; // SLICE!
    if (colour == 3)     // NOSLICE
        argv = NULL;     // NOSLICE
    if (mode == 2) {     // SLICE!
        *nothing = 1;    // FAIL
    }
    return argv == NULL;
}
