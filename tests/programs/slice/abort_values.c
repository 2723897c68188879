// Pair of abort_condition.c: a fault at the same place is about the values.
#include <stdio.h>
#include <stdlib.h>
int main(int argc, char **argv) {
    const char *message = argv[0]; // SLICE!
    int level = argc * 2; // SLICE!
    puts(message); // NOSLICE
    if (level > 3) // SLICE!
        fputs(message, stderr), abort(); // FAIL
    return 0; // NOSLICE
}
