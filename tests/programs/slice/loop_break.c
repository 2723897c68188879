// A break decides how far the sum got.
int main(int argc, char **argv) {
    (void)argv;
    int sum = 0; // SLICE!
    int seen = 0; // NOSLICE
    for (int i = 0; i < 10; i++) { // SLICE!
        if (i == argc) // SLICE!
            break;
        sum += i; // SLICE!
        seen++; // NOSLICE
    }
    sum = 10 / sum; // FAIL
    return seen; // NOSLICE
}
