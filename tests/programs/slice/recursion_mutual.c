// Two functions that call each other.
static int odd(int n);
static int label;
static int even(int n) {
    label = 1; // NOSLICE
    if (n == 0) // SLICE!
        return 0; // SLICE!
    return odd(n - 1); // SLICE!
}
static int odd(int n) {
    if (n == 0) // SLICE!
        return 1; // SLICE!
    return even(n - 1); // SLICE!
}
int main(int argc, char **argv) {
    (void)argv;
    int divisor = even(argc); // SLICE!
    label = 2; // NOSLICE
    return 10 / divisor; // FAIL
}
