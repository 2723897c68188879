// A condition in two parts: both decide.
#include <stdlib.h>
int main(int argc, char **argv) {
    int left = argc > 0;        // SLICE!
    int right = argv[0] != 0;   // SLICE!
    int aside = argv[1] != 0;   // NOSLICE
    int both = left && right;   // SLICE!
    if (both)                   // SLICE!
        abort();                // FAIL
    return aside;
}
