// A value that a loop carries, and another that it does not.
int main(int argc, char **argv) {
    (void)argv;
    int sum = 0;     // SLICE! NOTRACK
    int product = 1; // NOSLICE
    for (int i = 0; i < argc; i++) { // SLICE! TRACK
        sum += i;     // SLICE! NOTRACK
        product *= 2; // NOSLICE NOTRACK
    }
    sum = 10 / sum; // FAIL
    return product + sum;
}
