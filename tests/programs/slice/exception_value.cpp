// What is thrown arrives where it is caught.
static int label;
static void check(int n) {
    int code = n - 1; // SLICE!
    label = n; // NOSLICE
    if (n < 5) // SLICE!
        throw code; // SLICE!
}
int main(int argc, char **) {
    try {
        check(argc); // SLICE!
    } catch (int code) { // SLICE!
        return 100 / code; // FAIL
    }
    return label; // NOSLICE
}
