// A value that a recursion carries down.
static int descend(int n, int noise) {
    if (n == 0) // SLICE!
        return 10 / n; // FAIL
    int next = n - 1; // SLICE!
    int louder = noise + 1; // NOSLICE
    return descend(next, louder); // SLICE!
}
int main(int argc, char **argv) {
    (void)argv;
    int start = argc + 1; // SLICE!
    return descend(start, 0); // SLICE!
}
