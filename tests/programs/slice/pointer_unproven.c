// Pair of pointer_proven.c: without a stack either call may have been of `divide`.
// Nothing says which.
typedef int (*handler)(int);
static int total;
static int divide(int by) {
    return 100 / by; // FAIL
}
static int count(int by) {
    total = by; // NOSLICE
    return 1;
}
static int serve(handler next, int with) {
    return next(with); // SLICE!
}
static int again(handler next, int with) {
    int given = with * 2; // SLICE!
    return next(given); // SLICE!
}
int main(int argc, char **argv) {
    (void)argv;
    handler table[2] = {divide, count};
    serve(table[argc & 1], argc - 1); // SLICE!
    again(table[argc & 1], argc); // SLICE!
    return total; // NOSLICE
}
