// Two objects of one type, each with a pointer of its own: a store into the
// other one does not matter to those who tell objects apart.
// ALIAS andersen
#include <stdlib.h>
struct box { int by; int label; };
static struct box *make(void) {
    struct box *box = malloc(sizeof *box); // SLICE!
    return box; // SLICE!
}
int main(int argc, char **argv) {
    (void)argv;
    struct box *one = make(); // SLICE!
    struct box *two = malloc(sizeof *two); // NOSLICE
    one->by = argc - 1; // SLICE!
    two->by = argc + 1; // NOSLICE
    return 100 / one->by; // FAIL
}
