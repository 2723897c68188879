// Pair of field_same.c: the cleared field belongs to another struct type.
#include <stdlib.h>
struct queue { int *items; int count; };
struct stack { int *items; int count; };
static void clear(struct stack *victim) {
    victim->items = NULL; // NOSLICE
    victim->count = 0;    // NOSLICE
}
static int first(struct queue *q) {
    return *q->items; // FAIL
}
int main(void) {
    struct stack *s = calloc(1, sizeof *s); // NOSLICE
    struct queue *q = malloc(sizeof *q); // SLICE!
    q->items = malloc(4); // SLICE!
    clear(s);
    return first(q); // SLICE!
}
