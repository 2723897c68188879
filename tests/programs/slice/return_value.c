// What a called function returns, and on which of its paths.
static int pick(int n) {
    int waste = n * 3; // NOSLICE
    if (n > 1) // SLICE!
        return 0; // SLICE!
    waste++; // NOSLICE
    return n; // SLICE!
}
int main(int argc, char **argv) {
    (void)argv;
    int divisor = pick(argc); // SLICE!
    return 10 / divisor; // FAIL
}
