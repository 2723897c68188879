// Pair of pointer_walks.c: the pointer walks along another list.
#include <stdlib.h>
struct item { struct item *next; int *data; };
struct other { struct other *next; int linked; };
static struct item *head;
static struct other *others;
static void link(struct item *it) {
    head = it; // SLICE!
}
static void unlink(struct other *it) {
    struct other **at = &others; // NOSLICE
    if (!it->linked) // NOSLICE
        return;
    while (*at != it) // NOSLICE
        at = &(*at)->next; // NOSLICE
    *at = it->next; // NOSLICE
}
static int first(void) {
    return *head->data; // FAIL
}
int main(void) {
    struct item *a = calloc(1, sizeof *a);
    struct other *o = calloc(1, sizeof *o); // NOSLICE
    link(a); // SLICE!
    unlink(o); // NOSLICE
    return first(); // SLICE!
}
