// A value that a loop carries, and another that it does not.
int main(int argc, char **argv) {
    (void)argv;
    int sum = 0;     // SLICE!
    int product = 1; // NOSLICE
    for (int i = 0; i < argc; i++) { // SLICE!
        sum += i;     // SLICE!
        product *= 2; // NOSLICE
    }
    sum = 10 / sum; // FAIL
    return product + sum;
}
