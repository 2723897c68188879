// What a called function returns, and on which of its paths.
static int pick(int n) {
    int waste = n * 3; // NOSLICE
    if (n > 1) // SLICE! TRACK
        return 0; // SLICE! NOTRACK
    waste++; // NOSLICE
    return n; // SLICE! NOTRACK
}
int main(int argc, char **argv) {
    (void)argv;
    int divisor = pick(argc); // SLICE! TRACK
    return 10 / divisor; // FAIL
}
