// A condition in two parts: both decide.
#include <stdlib.h>
int main(int argc, char **argv) {
    int left = argc > 0;        // SLICE! NOTRACK
    int right = argv[0] != 0;   // SLICE! TRACK
    int aside = argv[1] != 0;   // NOSLICE NOTRACK
    int both = left && right;   // SLICE! TRACK
    if (both)                   // SLICE! TRACK
        abort();                // FAIL TRACK
    return aside;
}
