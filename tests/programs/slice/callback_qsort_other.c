// Pair of callback_qsort.c: the comparators have changed places.
#include <stdlib.h>
static int compare(const void *a, const void *b) {
    const int *x = a; // SLICE!
    return 100 / *x + (b != 0); // FAIL
}
static int other(const void *a, const void *b) {
    return a < b; // NOSLICE
}
int main(int argc, char **argv) {
    (void)argv;
    int heavy[2];
    int light[2];
    heavy[0] = argc - 1; // NOSLICE
    light[0] = argc + 1; // SLICE!
    qsort(light, 2, sizeof light[0], compare); // SLICE!
    qsort(heavy, 2, sizeof heavy[0], other); // NOSLICE
    return 0;
}
