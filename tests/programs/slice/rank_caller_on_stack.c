// A small function with two callers: the stack shows which of them called.
static int share(int amount, int by) {
    return amount / by; // FAIL
}
static int weekly(int total) {
    int days = total - 7; // SLICE! WITHIN 4
    return share(100, days); // SLICE! STACK 1
}
static int monthly(int total) {
    int weeks = total * 4; // NOSLICE
    return share(200, weeks); // NOSLICE
}
int main(int argc, char **argv) {
    (void)argv;
    int sum = monthly(argc); // NOSLICE
    sum += weekly(argc + 6); // SLICE! STACK 2
    return sum; // NOSLICE
}
