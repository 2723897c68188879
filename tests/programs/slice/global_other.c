// Pair of global_same.c: the failing statement reads the other global.
#include <stdlib.h>
static int level;
static int other;
static void set_level(int to) {
    level = to; // NOSLICE
    other = 3;  // SLICE!
}
int main(int argc, char **argv) {
    (void)argv;
    set_level(argc - 1);
    return 10 / other; // FAIL
}
