// Pair of callback_bsearch_key.c: the element is used, not the key.
#include <stdlib.h>
static int compare(const void *key, const void *element) {
    const int *wanted = key; // NOSLICE
    const int *found = element; // SLICE!
    return 100 / *found; // FAIL
}
int main(int argc, char **argv) {
    (void)argv;
    int table[2];
    int key = argc - 1; // NOSLICE
    table[0] = argc + 1; // SLICE!
    bsearch(&key, table, 2, sizeof table[0], compare); // SLICE!
    return 0;
}
