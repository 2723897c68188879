// A global that is stored elsewhere and loaded where it fails.
#include <stdlib.h>
static int level;
static int other;
static void set_level(int to) {
    level = to; // SLICE!
    other = 3;  // NOSLICE
}
int main(int argc, char **argv) {
    (void)argv;
    set_level(argc - 1); // SLICE!
    return 10 / level;   // FAIL
}
