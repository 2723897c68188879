// An abort is about the condition behind it, not about the message.
// ABORT
#include <stdio.h>
#include <stdlib.h>
int main(int argc, char **argv) {
    const char *message = argv[0]; // NOSLICE
    int level = argc * 2; // SLICE!
    puts(message); // NOSLICE
    if (level > 3) // SLICE!
        fputs(message, stderr), abort(); // FAIL
    return 0; // NOSLICE
}
