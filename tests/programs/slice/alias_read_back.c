// A pointer goes through an array: its derivation is lost, its field is not.
// ALIAS andersen
#include <stdlib.h>
struct box { int by; int label; };
static struct box *boxes[4];
int main(int argc, char **argv) {
    (void)argv;
    struct box **shelf = malloc(4 * sizeof *shelf); // SLICE!
    struct box *one = malloc(sizeof *one); // SLICE!
    shelf[argc] = one; // SLICE!
    one->by = argc - 1; // SLICE!
    one->label = argc; // NOSLICE
    boxes[0] = one; // NOSLICE
    return 100 / shelf[argc]->by; // FAIL
}
