// A struct copied into heap memory by assignment through a pointer.
// Line 7 writes it too, but nothing says of what type it writes: left open.
#include <stdlib.h>
struct config { int *limits; int verbose; };
static struct config *current;
static void install(struct config *next) {
    *current = *next;
}
static void replace(int loud) {
    struct config fresh;
    fresh.limits = NULL; // SLICE!
    fresh.verbose = loud; // NOSLICE
    *current = fresh; // SLICE!
}
int main(int argc, char **argv) {
    (void)argv;
    current = malloc(sizeof *current); // SLICE!
    replace(argc);
    if (argc > 9)
        install(current);
    return *current->limits; // FAIL
}
