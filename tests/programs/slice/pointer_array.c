// Functions in an array, called by index: any of that array, none of another.
static int less(int n) {
    return n - 1; // SLICE!
}
static int none(int n) {
    return 0; // SLICE!
}
static int more(int n) {
    return n + 1; // NOSLICE
}
static int (*steps[2])(int) = { less, none };
static int (*spare[1])(int) = { more };
int main(int argc, char **argv) {
    (void)argv;
    int which = argc & 1; // SLICE!
    int divisor = steps[which](argc); // SLICE!
    divisor = 10 / divisor; // FAIL
    return spare[0](argc); // NOSLICE
}
