// A field of a struct inside a struct, and of an anonymous one.
struct inner { int low; int high; };
struct outer { struct inner range; struct { int low; int high; } free_range; };
static struct outer shared;
static void set(struct inner *r, int n) {
    r->low = n; // SLICE!
    r->high = n; // NOSLICE
}
int main(int argc, char **argv) {
    (void)argv;
    set(&shared.range, argc - 1); // SLICE!
    shared.free_range.low = argc; // NOSLICE
    shared.free_range.high = argc + 2; // SLICE!
    return 10 / (shared.range.low * shared.free_range.high); // FAIL
}
