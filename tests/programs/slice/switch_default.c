// Pair of switch_case.c: every way through the switch sets the variable.
int main(int argc, char **argv) {
    (void)argv;
    int divisor = 5; // NOSLICE
    switch (argc) {  // SLICE!
    case 1:
        divisor = 0; // SLICE!
        break;
    default:
        divisor = 2; // SLICE!
        break;
    }
    return 10 / divisor; // FAIL
}
