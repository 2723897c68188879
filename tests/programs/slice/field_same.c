// A field stored through one pointer and loaded through another.
#include <stdlib.h>
struct queue { int *items; int count; };
static void clear(struct queue *victim) {
    victim->items = NULL; // SLICE! TRACK
    victim->count = 0;    // NOSLICE NOTRACK
}
static int first(struct queue *q) {
    return *q->items; // FAIL TRACK
}
int main(void) {
    struct queue *q = malloc(sizeof *q); // SLICE! NOTRACK
    q->items = malloc(4); // SLICE! TRACK
    clear(q); // SLICE! TRACK
    return first(q); // SLICE!
}
