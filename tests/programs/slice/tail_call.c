// A tail call hands its arguments on in place of its own frame.
static int visits;
static int finish(int n, int unused) {
    visits = unused; // NOSLICE
    return 100 / n; // FAIL
}
static int step(int n, int other) {
    int less = n - 1; // SLICE!
    int more = other + 1; // NOSLICE
    __attribute__((musttail)) return finish(less, more); // SLICE!
}
int main(int argc, char **argv) {
    (void)argv;
    return step(argc, argc); // SLICE!
}
