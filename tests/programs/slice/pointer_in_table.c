// A call through a table of functions: candidates by type.
struct operations { int (*run)(int); int (*stop)(int, int); };
static int run_it(int n) {
    return n - 1; // SLICE!
}
static int stop_it(int n, int m) {
    return n + m; // NOSLICE
}
static struct operations table = { run_it, stop_it };
static int apply(struct operations *with, int n) {
    return with->run(n); // SLICE!
}
int main(int argc, char **argv) {
    (void)argv;
    int divisor = apply(&table, argc); // SLICE!
    return 10 / divisor; // FAIL
}
