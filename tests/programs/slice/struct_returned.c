// A struct that is returned by value, in memory.
struct report { int count; int label; long more[4]; };
static struct report make(int n, int m) {
    struct report report;
    report.count = n - 1; // SLICE!
    report.label = m; // NOSLICE
    return report;
}
int main(int argc, char **argv) {
    (void)argv;
    int number = argc; // SLICE!
    int other = argc + 1; // NOSLICE
    struct report made = make(number, other); // SLICE!
    return 100 / made.count; // FAIL
}
