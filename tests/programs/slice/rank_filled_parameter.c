// What the same function put where its parameter points, before it reads it again.
#include <stdio.h>
#include <string.h>
static char shown[16];
static int other;
static void label(char *buffer, char *to, int number) {
    snprintf(buffer, 16, "%d", number); // SLICE! WITHIN 6
    other = number; // NOSLICE
    memcpy(to, buffer, 16); // SLICE! WITHIN 4
}
int main(int argc, char **argv) {
    (void)argv;
    char buffer[16];
    int number = argc * 3; // SLICE! WITHIN 10
    label(buffer, shown, number); // SLICE!
    return 10 / shown[0]; // FAIL
}
