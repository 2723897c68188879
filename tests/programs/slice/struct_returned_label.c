// Pair of struct_returned.c: the other field is read.
struct report { int count; int label; long more[4]; };
static struct report make(int n, int m) {
    struct report report;
    report.count = n - 1; // NOSLICE
    report.label = m; // SLICE!
    return report;
}
int main(int argc, char **argv) {
    (void)argv;
    int number = argc; // NOSLICE
    int other = argc + 1; // SLICE!
    struct report made = make(number, other); // SLICE!
    return 100 / made.label; // FAIL
}
