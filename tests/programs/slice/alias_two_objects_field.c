// Pair of alias_two_objects.c: by field, the two are one.
// ALIAS field
#include <stdlib.h>
struct box { int by; int label; };
int main(int argc, char **argv) {
    (void)argv;
    struct box *one = malloc(sizeof *one); // SLICE!
    struct box *two = malloc(sizeof *two); // SLICE!
    one->by = argc - 1; // SLICE!
    two->by = argc + 1; // SLICE!
    two->label = argc; // NOSLICE
    return 100 / one->by; // FAIL
}
