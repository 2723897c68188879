// Pair of varargs.c: only the named parameter is used.
#include <stdarg.h>
static int label;
static int first(int count, ...) {
    va_list list;
    va_start(list, count); // NOSLICE
    label = va_arg(list, int); // NOSLICE
    va_end(list); // NOSLICE
    return count; // SLICE!
}
int main(int argc, char **argv) {
    (void)argv;
    int number = argc - 1; // NOSLICE
    int count = argc + 1; // SLICE!
    int divisor = first(count, number); // SLICE!
    return 10 / divisor; // FAIL
}
