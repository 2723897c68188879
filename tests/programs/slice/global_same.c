// A global that is stored elsewhere and loaded where it fails.
#include <stdlib.h>
static int level;
static int other;
static void set_level(int to) {
    level = to; // SLICE! TRACK
    other = 3;  // NOSLICE NOTRACK
}
int main(int argc, char **argv) {
    (void)argv;
    set_level(argc - 1); // SLICE! TRACK
    return 10 / level;   // FAIL TRACK
}
