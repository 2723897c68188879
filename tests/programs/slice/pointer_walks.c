// A local pointer walks along a list's links and is stored through at the end:
// the store is one to the head or to a link.
#include <stdlib.h>
struct item { struct item *next; int linked; int *data; };
static struct item *head;
static int links;
static void link(struct item *it) {
    it->linked = 1; // SLICE!
    links++; // NOSLICE
    it->next = head;
    head = it; // SLICE!
}
static void unlink(struct item *it) {
    struct item **at = &head;
    if (!it->linked) // SLICE!
        return;
    while (*at != it) // SLICE!
        at = &(*at)->next;
    *at = it->next; // SLICE!
    it->linked = 0; // SLICE!
}
static int first(void) {
    return *head->data; // FAIL
}
int main(void) {
    struct item *a = calloc(1, sizeof *a), *b = calloc(1, sizeof *b);
    link(a); // SLICE!
    link(b); // SLICE!
    unlink(b); // SLICE!
    return first(); // SLICE!
}
