// Pair of alias_unnamed.c: without it the store is not found, and the slice says
// that a load goes through a pointer of which nothing is known.
// ALIAS field
#include <stdlib.h>
int main(int argc, char **argv) {
    (void)argv;
    int **shelf = malloc(4 * sizeof *shelf); // SLICE!
    int *one = malloc(sizeof *one); // NOSLICE
    shelf[argc] = one; // NOSLICE
    *one = argc - 1; // NOSLICE
    int *found = shelf[argc]; // SLICE!
    return 100 / *found; // FAIL
}
