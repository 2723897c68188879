// Pair of local_overwritten.c: now the second store is conditional.
int main(int argc, char **argv) {
    (void)argv;
    int divisor = 7;      // SLICE!
    int unrelated = argc; // NOSLICE
    if (argc < 5)         // SLICE!
        divisor = argc - 1; // SLICE!
    unrelated++;          // NOSLICE
    return 10 / divisor;  // FAIL
}
