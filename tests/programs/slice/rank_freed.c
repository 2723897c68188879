// ALIAS field
// Freeing a block is a write of all that it holds.
#include <stdlib.h>
struct session { int users; int *log; };
struct parcel { int weight; };
static struct session *current;
static struct parcel *parcel;
static void end(struct session *s) {
    s->log = NULL; // NOSLICE
    free(s); // SLICE! WITHIN 12
}
static void drop(struct parcel *p) {
    p->weight = 0; // NOSLICE
    free(p); // NOSLICE
}
int main(int argc, char **argv) {
    (void)argv;
    current = malloc(sizeof *current);
    parcel = malloc(sizeof *parcel);
    current->users = argc; // SLICE!
    drop(parcel); // NOSLICE
    if (argc > 1) // SLICE!
        end(current); // SLICE! WITHIN 12
    return 10 / current->users; // FAIL
}
