// Variable arguments: any of them may be what va_arg yields.
#include <stdarg.h>
static int label;
static int first(int count, ...) {
    va_list list;
    va_start(list, count); // SLICE!
    int value = va_arg(list, int); // SLICE!
    va_end(list); // NOSLICE
    return value; // SLICE!
}
int main(int argc, char **argv) {
    (void)argv;
    int number = argc - 1; // SLICE!
    int count = argc + 1; // NOSLICE
    label = 1; // NOSLICE
    int divisor = first(count, number); // SLICE!
    return 10 / divisor; // FAIL
}
