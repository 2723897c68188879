// Pair of alias_read_back.c: the very pointer is used.
#include <stdlib.h>
struct box { int by; int label; };
static struct box *boxes[4];
int main(int argc, char **argv) {
    (void)argv;
    struct box **shelf = malloc(4 * sizeof *shelf); // NOSLICE
    struct box *one = malloc(sizeof *one); // SLICE!
    shelf[argc] = one; // NOSLICE
    one->by = argc - 1; // SLICE!
    one->label = argc; // NOSLICE
    boxes[0] = one; // NOSLICE
    return 100 / one->by; // FAIL
}
