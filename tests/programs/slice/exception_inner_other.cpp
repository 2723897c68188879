// Pair of exception_inner.cpp: the inner handler is for another type, so the
// value comes out of the outer one.
static int caught;
static void inner(int by) {
    try {
        throw by; // SLICE!
    } catch (long value) {
        caught = value; // NOSLICE
    }
}
static void outer(int by) {
    inner(by); // SLICE!
}
int main(int argc, char **) {
    int by = argc - 1; // SLICE!
    try {
        outer(by); // SLICE!
    } catch (int value) {
        return 100 / value; // FAIL
    }
    return caught; // NOSLICE
}
