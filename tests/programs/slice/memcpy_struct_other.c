// Pair of memcpy_struct.c: the other field is read.
#include <stdlib.h>
struct point { int x; int y; };
int main(int argc, char **argv) {
    (void)argv;
    struct point from;
    struct point to = {9, 9}; // NOSLICE
    from.x = argc - 1; // NOSLICE
    from.y = argc + 1; // SLICE!
    to = from; // SLICE!
    return 10 / to.y; // FAIL
}
