// A library call stores into a global.
#include <stdio.h>
static int divisor = 1;
static int label = 1;
int main(void) {
    scanf("%d", &divisor); // SLICE!
    scanf("%d", &label); // NOSLICE
    printf("%d\n", label); // NOSLICE
    return 100 / divisor; // FAIL
}
