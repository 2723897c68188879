// Pair of tail_call.c: what the tail call returns is used by the first caller.
static int visits;
static int finish(int n, int m) {
    visits = m; // NOSLICE
    return n - 1; // SLICE!
}
static int step(int n, int m) {
    __attribute__((musttail)) return finish(n, m); // SLICE!
}
int main(int argc, char **argv) {
    (void)argv;
    int number = argc; // SLICE!
    int other = argc + 1; // NOSLICE
    int divisor = step(number, other); // SLICE!
    return 100 / divisor; // FAIL
}
