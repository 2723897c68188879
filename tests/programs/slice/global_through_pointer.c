// A global is written through a pointer that holds its address.
static int limit = 1;
static int other = 1;
int main(int argc, char **argv) {
    (void)argv;
    int *where = &limit; // SLICE!
    int *beside = &other; // NOSLICE
    *where = argc - 1; // SLICE!
    *beside = argc; // NOSLICE
    return 10 / limit; // FAIL
}
