// Pair of argument_used.c: the other argument is used.
static int half(int ignored, int wanted) {
    (void)ignored;
    return 10 / wanted; // FAIL
}
int main(int argc, char **argv) {
    (void)argv;
    int a = argc - 1; // NOSLICE
    int b = argc + 1; // SLICE!
    return half(a, b); // SLICE!
}
