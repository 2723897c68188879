// Pair of return_value.c: the result is not used.
static int pick(int n) {
    if (n > 1) // NOSLICE
        return 0; // NOSLICE
    return n; // NOSLICE
}
int main(int argc, char **argv) {
    (void)argv;
    int divisor = argc - 1; // SLICE!
    pick(argc); // NOSLICE
    return 10 / divisor; // FAIL
}
