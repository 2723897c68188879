// A call through a pointer that may be either of two functions.
static int zero(int n) {
    int nothing = n - n; // SLICE!
    return nothing; // SLICE!
}
static int one(int n) {
    int something = n / n; // SLICE!
    return something; // SLICE!
}
static int unused(int n) {
    int never = n + 5; // NOSLICE
    return never; // NOSLICE
}
int main(int argc, char **argv) {
    (void)argv;
    int (*op)(int) = one; // SLICE!
    if (argc == 1) // SLICE!
        op = zero; // SLICE!
    int divisor = op(argc); // SLICE!
    divisor = 10 / divisor; // FAIL
    return divisor + unused(0);
}
