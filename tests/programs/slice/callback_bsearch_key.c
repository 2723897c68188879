// bsearch: the comparator's first parameter is the key.
#include <stdlib.h>
static int compare(const void *key, const void *element) {
    const int *wanted = key; // SLICE!
    const int *found = element; // NOSLICE
    return 100 / *wanted; // FAIL
}
int main(int argc, char **argv) {
    (void)argv;
    int table[2];
    int key = argc - 1; // SLICE!
    table[0] = argc + 1; // NOSLICE
    bsearch(&key, table, 2, sizeof table[0], compare); // SLICE!
    return 0;
}
