// A field arrives by an assignment of whole structs.
#include <stdlib.h>
struct point { int x; int y; };
int main(int argc, char **argv) {
    (void)argv;
    struct point from;
    struct point to = {9, 9}; // NOSLICE
    from.x = argc - 1; // SLICE!
    from.y = argc + 1; // NOSLICE
    to = from; // SLICE!
    return 10 / to.x; // FAIL
}
