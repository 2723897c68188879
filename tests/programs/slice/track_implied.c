// A call of a library function that is followed by a tracked access in the same
// block needs no hook of its own: the access tells of it. A call of the
// program's own function keeps its hook: what runs in it is recorded in between.
#include <stdlib.h>
struct box { int size; int label; };
static int rest;
static int made(int n) {
    struct box *box = malloc(sizeof *box); // SLICE! NOTRACK
    box->size = n; // SLICE! TRACK
    box->label = n; // NOSLICE NOTRACK
    return box->size; // SLICE! TRACK
}
int main(int argc, char **argv) {
    (void)argv;
    int divisor = made(argc - 1); // SLICE! TRACK
    rest = 10 / divisor; // FAIL TRACK
    return rest; // NOSLICE NOTRACK
}
