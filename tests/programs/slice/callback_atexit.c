// A function that exit calls: what registers it and what it reads.
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
    count = argc - 1; // SLICE!
    atexit(report); // SLICE!
    atexit(farewell); // NOSLICE
    return 0;
}
