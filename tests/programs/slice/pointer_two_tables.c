// Pair of pointer_in_table.c: two tables of one type; the call names one.
struct operations { int (*run)(int); };
static int run_it(int n) {
    return n - 1; // SLICE!
}
static int leave_it(int n) {
    return n + 1; // NOSLICE
}
static struct operations used = { run_it };
static struct operations spare = { leave_it };
int main(int argc, char **argv) {
    (void)argv;
    int divisor = used.run(argc); // SLICE!
    divisor = 10 / divisor; // FAIL
    return spare.run(argc); // NOSLICE
}
