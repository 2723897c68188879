// A local that is set again before its use: the first value plays no part.
int main(int argc, char **argv) {
    (void)argv;
    int divisor = 7;      // NOSLICE
    int unrelated = argc; // NOSLICE
    divisor = argc - 1;   // SLICE! NOTRACK
    unrelated++;          // NOSLICE NOTRACK
    return 10 / divisor;  // FAIL
}
