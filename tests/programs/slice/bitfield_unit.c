// Bit-fields: those of one storage unit share their location, which is the
// unit; those of another unit do not.
struct flags { unsigned ready : 3; unsigned level : 5; unsigned : 0; unsigned other : 4; };
static struct flags flags;
static void set(unsigned n) {
    flags.level = n; // SLICE!
    flags.other = n + 1; // NOSLICE
}
int main(int argc, char **argv) {
    (void)argv;
    set((unsigned)argc); // SLICE!
    return 100 / flags.level; // FAIL
}
