// What an inner handler catches does not come out of the outer one.
static int caught;
static void inner(int by) {
    try {
        throw by; // NOSLICE
    } catch (int value) {
        caught = value; // NOSLICE
    }
}
static void outer(int by) {
    inner(by); // NOSLICE
    throw by; // SLICE!
}
int main(int argc, char **) {
    int by = argc - 1; // SLICE!
    try {
        outer(by); // SLICE!
    } catch (int value) {
        return 100 / value; // FAIL
    }
    return 0;
}
