// Pair of loop_break.c: a value carried from the iteration before.
int main(int argc, char **argv) {
    (void)argv;
    int previous = 1; // SLICE!
    int current = argc; // SLICE!
    int label = 0; // NOSLICE
    while (argc-- > 0) { // SLICE!
        int rest = 100 / previous; // FAIL
        previous = current; // SLICE!
        current = argc; // SLICE!
        label = rest; // NOSLICE
    }
    return label; // NOSLICE
}
