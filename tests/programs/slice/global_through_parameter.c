// Pair of global_through_pointer.c: the pointer is a parameter.
static int limit = 1;
static int other = 1;
static void set(int *where, int n) {
    *where = n - 1; // SLICE!
}
static void clear(int *where) {
    *where = 0; // NOSLICE
}
int main(int argc, char **argv) {
    (void)argv;
    set(&limit, argc); // SLICE!
    clear(&other); // NOSLICE
    return 10 / limit; // FAIL
}
