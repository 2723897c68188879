// Two handlers of one type are called through one pointer. The stack shows that
// this call was of `divide`, so what `count` gave back before does not matter.
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
    return next(with); // SLICE! STACK 1
}
static int again(handler next, int with) {
    int given = with * 2; // NOSLICE
    return next(given); // NOSLICE
}
int main(int argc, char **argv) {
    (void)argv;
    handler table[2] = {divide, count};
    serve(table[argc & 1], argc - 1); // SLICE! STACK 2
    again(count, argc); // NOSLICE
    return total; // NOSLICE
}
