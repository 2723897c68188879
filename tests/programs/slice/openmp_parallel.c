// FLAGS -fopenmp
// The body of a parallel region is a function that the fork calls.
int main(int argc, char **argv) {
    (void)argv;
    int divisor = argc - 1; // SLICE!
    int other = argc + 1; // NOSLICE
    int rest = 0;
#pragma omp parallel shared(divisor, other, rest)
    {
        rest = 100 / divisor; // FAIL
        rest = other; // NOSLICE
    }
    return rest; // NOSLICE
}
