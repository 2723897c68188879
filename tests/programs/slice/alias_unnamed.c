// Plain integers through pointers that are kept in a heap array: nothing has a
// name, only a points-to analysis finds the store.
// ALIAS andersen
#include <stdlib.h>
int main(int argc, char **argv) {
    (void)argv;
    int **shelf = malloc(4 * sizeof *shelf); // SLICE!
    int *one = malloc(sizeof *one); // SLICE!
    int *two = malloc(sizeof *two); // NOSLICE
    shelf[argc] = one; // SLICE!
    *one = argc - 1; // SLICE!
    *two = argc + 1; // NOSLICE
    int *found = shelf[argc]; // SLICE!
    return 100 / *found; // FAIL
}
