// A check that leaves the function decides over everything behind it.
#include <stdlib.h>
int main(int argc, char **argv) {
    int *nothing = NULL; // SLICE!
    if (argc == 7)       // SLICE!
        return 1;
    argv[0] = NULL;      // NOSLICE
    *nothing = 1;        // FAIL
    return 0;
}
