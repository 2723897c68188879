// Pair of setjmp_value.c: a local that is set between setjmp and longjmp.
#include <setjmp.h>
static jmp_buf place;
static int label;
static void leave(int n) {
    label = n; // NOSLICE
    longjmp(place, 1); // SLICE!
}
int main(int argc, char **argv) {
    (void)argv;
    volatile int stage = 1; // SLICE!
    volatile int other = 1; // NOSLICE
    if (setjmp(place)) // SLICE!
        return 100 / stage; // FAIL
    stage = argc - 1; // SLICE!
    other = argc; // NOSLICE
    leave(argc); // SLICE!
    return 0;
}
