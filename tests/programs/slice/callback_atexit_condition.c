// Pair of callback_atexit.c: only sometimes registered.
#include <stdlib.h>
static int count = 1;
static int label;
static void report(void) {
    label = 100 / count; // FAIL
}
static void farewell(void) {
    label = 2; // NOSLICE
}
int main(int argc, char **argv) {
    (void)argv;
    count = 0; // SLICE!
    if (argc > 1) // SLICE!
        atexit(report); // SLICE!
    if (argc > 2) // NOSLICE
        atexit(farewell); // NOSLICE
    return 0;
}
