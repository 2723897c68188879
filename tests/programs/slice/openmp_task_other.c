// Pair of openmp_task.c: the task takes the variable along and uses a global.
// FLAGS -fopenmp
static int rest;
static int divisor = 1;
int main(int argc, char **argv) {
    (void)argv;
    int by = argc - 1; // NOSLICE
    divisor = argc; // SLICE!
#pragma omp parallel
    {
#pragma omp task firstprivate(by) // SLICE!
        {
            rest = 100 / divisor; // FAIL
            rest += by; // NOSLICE
        }
    }
    return 0;
}
