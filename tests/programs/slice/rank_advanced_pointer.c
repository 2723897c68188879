// A pointer that is advanced still goes through what it began with.
static char text[16];
static int other[4];
static void put(char *at, int number) {
    *at++ = (char)('0' + number); // SLICE! WITHIN 6
    *at++ = 0; // SLICE!
}
static void count(int *at) {
    *at++ = 1; // NOSLICE
}
int main(int argc, char **argv) {
    (void)argv;
    put(text, argc); // SLICE! WITHIN 8
    count(other); // NOSLICE
    return 10 / text[0]; // FAIL
}
