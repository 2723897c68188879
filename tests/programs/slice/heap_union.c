// A union on the heap, filled through one function and read in another.
#include <stdlib.h>
union value { int number; float fraction; };
struct box { int tag; union value held; };
static void fill(struct box *box, int n) {
    box->tag = n; // NOSLICE
    box->held.number = n - 1; // SLICE!
}
static int share(struct box *box) {
    return 100 / box->held.number; // FAIL
}
int main(int argc, char **argv) {
    (void)argv;
    struct box *box = malloc(sizeof *box); // SLICE!
    fill(box, argc); // SLICE!
    return share(box); // SLICE!
}
