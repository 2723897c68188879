// Pair of track_implied.c: the call is conditional and the access is not, so the
// access does not tell of the call, which keeps its hook.
#include <stdlib.h>
struct box { int size; int label; };
static int rest;
static struct box spare;
static int made(int n) {
    struct box *box = &spare; // SLICE! NOTRACK
    if (n > 1) // SLICE! TRACK
        box = calloc(1, sizeof *box); // SLICE! TRACK
    if (n > 2) // NOSLICE NOTRACK
        box->label = n; // NOSLICE NOTRACK
    return box->size; // SLICE! TRACK
}
int main(int argc, char **argv) {
    (void)argv;
    int divisor = made(argc); // SLICE! TRACK
    rest = 10 / divisor; // FAIL TRACK
    return rest; // NOSLICE NOTRACK
}
