// Pair of bitfield_unit.c: the other unit is read.
struct flags { unsigned ready : 3; unsigned level : 5; unsigned : 0; unsigned other : 4; };
static struct flags flags;
static void set(unsigned n) {
    flags.level = n; // NOSLICE
    flags.other = n + 1; // SLICE!
}
int main(int argc, char **argv) {
    (void)argv;
    set((unsigned)argc); // SLICE!
    return 100 / flags.other; // FAIL
}
