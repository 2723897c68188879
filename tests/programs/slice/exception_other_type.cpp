// Pair of exception_value.cpp: one of two types is caught here.
static int label;
static void check(int n) {
    int code = n - 1; // SLICE!
    long other = n + 1; // NOSLICE
    if (n < 5) // SLICE!
        throw code; // SLICE!
    if (n < 9) // NOSLICE
        throw other; // NOSLICE
}
int main(int argc, char **) {
    try {
        check(argc); // SLICE!
    } catch (int code) { // SLICE!
        return 100 / code; // FAIL
    }
    return label; // NOSLICE
}
