// FLAGS -fopenmp
// Pair of openmp_parallel.c: the region sets its own copy.
int main(int argc, char **argv) {
    (void)argv;
    int divisor = argc - 1; // NOSLICE
    int other = argc + 1; // SLICE!
    int rest = 0;
#pragma omp parallel private(divisor) shared(other, rest)
    {
        divisor = other; // SLICE!
        rest = 100 / divisor; // FAIL
    }
    return rest + divisor; // NOSLICE
}
