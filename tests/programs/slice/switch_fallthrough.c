// Falling through from one case into the next.
int main(int argc, char **argv) {
    (void)argv;
    int divisor = 1; // SLICE!
    int label = 0; // NOSLICE
    switch (argc) { // SLICE!
    case 1:
        divisor = 4; // NOSLICE
        divisor = 3; // SLICE!
    case 2:
        divisor -= 3; // SLICE!
        break;
    default:
        label = 9; // NOSLICE
    }
    divisor = 10 / divisor; // FAIL
    return label;
}
