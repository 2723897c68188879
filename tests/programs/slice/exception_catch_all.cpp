// Pair of exception_value.cpp: nothing of the thrown value is used, but that
// it was thrown decides.
static int limit;
static void check(int n) {
    if (n < 5) // SLICE!
        throw n; // SLICE!
    limit = 3; // SLICE!
}
static void calm(int n) {
    int unrelated = n; // NOSLICE
}
int main(int argc, char **) {
    int label = argc; // NOSLICE
    calm(argc); // NOSLICE
    try {
        check(argc); // SLICE!
    } catch (...) {
        return 100 / limit; // FAIL
    }
    return label; // NOSLICE
}
