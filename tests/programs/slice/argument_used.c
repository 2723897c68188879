// Of two arguments, one is used.
static int half(int wanted, int ignored) {
    (void)ignored;
    return 10 / wanted; // FAIL
}
int main(int argc, char **argv) {
    (void)argv;
    int a = argc - 1; // SLICE!
    int b = argc + 1; // NOSLICE
    return half(a, b); // SLICE!
}
