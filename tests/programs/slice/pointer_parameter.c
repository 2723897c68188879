// A function pointer handed over: only what is handed over is called.
static int less(int n) {
    return n - 1; // SLICE!
}
static int more(int n) {
    return n + 1; // NOSLICE
}
static int apply(int (*with)(int), int n) {
    return with(n); // SLICE!
}
int main(int argc, char **argv) {
    (void)argv;
    int (*kept)(int) = more; // NOSLICE
    int divisor = apply(less, argc); // SLICE!
    divisor = 10 / divisor; // FAIL
    return kept(argc); // NOSLICE
}
