// goto to a common exit.
static int label;
int main(int argc, char **argv) {
    (void)argv;
    int divisor = 1; // SLICE!
    label = 1; // NOSLICE
    if (argc > 3) // SLICE!
        goto out;
    divisor = argc - 1; // SLICE!
    label = 2; // NOSLICE
out:
    return 100 / divisor; // FAIL
}
