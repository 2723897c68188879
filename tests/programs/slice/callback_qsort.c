// qsort calls the comparator with pointers into the array it was given.
#include <stdlib.h>
static int compare(const void *a, const void *b) {
    const int *x = a; // SLICE!
    const int *y = b; // NOSLICE
    return 100 / *x; // FAIL
}
static int other(const void *a, const void *b) {
    return a < b; // NOSLICE
}
int main(int argc, char **argv) {
    (void)argv;
    int heavy[2];
    int light[2];
    heavy[0] = argc - 1; // SLICE!
    light[0] = argc + 1; // NOSLICE
    qsort(light, 2, sizeof light[0], other); // NOSLICE
    qsort(heavy, 2, sizeof heavy[0], compare); // SLICE!
    return 0;
}
