// longjmp's second argument is what setjmp returns.
#include <setjmp.h>
static jmp_buf place;
static int label;
static void leave(int n) {
    label = n; // NOSLICE
    longjmp(place, n + 1); // SLICE!
}
int main(int argc, char **argv) {
    (void)argv;
    int came = setjmp(place); // SLICE!
    if (came == 0) // SLICE!
        leave(argc); // SLICE!
    label = 5; // NOSLICE
    return 100 / (came - 2); // FAIL
}
