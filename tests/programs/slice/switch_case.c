// A switch decides which store reaches.
int main(int argc, char **argv) {
    (void)argv;
    int divisor = 5; // SLICE!
    int shape = 0;   // NOSLICE
    switch (argc) {  // SLICE! TRACK
    case 1:
        divisor = 0; // SLICE! NOTRACK
        break;
    case 2:
        shape = 4; // NOSLICE NOTRACK
        break;
    }
    shape++; // NOSLICE
    return 10 / divisor; // FAIL
}
