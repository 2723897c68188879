// A field stored through one pointer and loaded through another.
#include <stdlib.h>
struct queue { int *items; int count; };
static void clear(struct queue *victim) {
    victim->items = NULL; // SLICE!
    victim->count = 0;    // NOSLICE
}
static int first(struct queue *q) {
    return *q->items; // FAIL
}
int main(void) {
    struct queue *q = malloc(sizeof *q); // SLICE!
    q->items = malloc(4); // SLICE!
    clear(q); // SLICE!
    return first(q); // SLICE!
}
