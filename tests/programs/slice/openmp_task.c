// An OpenMP task takes a copy of a variable along.
// FLAGS -fopenmp
static int rest;
int main(int argc, char **argv) {
    (void)argv;
    int by = argc - 1; // SLICE!
    int label = argc; // NOSLICE
#pragma omp parallel
    {
#pragma omp task firstprivate(by) // SLICE!
        {
            rest = 100 / by; // FAIL
        }
    }
    return label; // NOSLICE
}
