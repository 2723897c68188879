// Pair of library_writes_global.c: the call only reads the global's bytes.
#include <stdio.h>
#include <string.h>
static char divisor[4];
static char label[4];
int main(int argc, char **argv) {
    (void)argv;
    strcpy(divisor, "12"); // SLICE!
    strcpy(label, "34"); // NOSLICE
    fwrite(divisor, 1, 4, stdout); // NOSLICE
    return 100 / divisor[argc]; // FAIL
}
