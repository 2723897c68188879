// FLAGS -fopenmp
// A parallel loop over a global: the loop's variable decides, other loops do not.
static int shares[4];
static int weights[4];
int main(int argc, char **argv) {
    (void)argv;
#pragma omp parallel for
    for (int i = 0; i < 4; i++)
        weights[i] = argc; // NOSLICE
    shares[1] = argc - 1; // SLICE!
#pragma omp parallel for
    for (int i = 0; i < 4; i++) // SLICE!
        weights[i] = 100 / shares[i]; // FAIL
    return weights[0]; // NOSLICE
}
