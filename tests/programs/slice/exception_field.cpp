// An object is thrown; the handler reads one field of it.
struct Problem {
    int code;
    int line;
};
static void check(int n) {
    Problem problem;
    problem.code = n - 1; // SLICE!
    problem.line = 7;
    if (n < 5) // SLICE!
        throw problem; // SLICE!
}
static int other(int n) {
    int unrelated = n + 3; // NOSLICE
    return unrelated; // NOSLICE
}
int main(int argc, char **) {
    other(argc); // NOSLICE
    try {
        check(argc); // SLICE!
    } catch (const Problem &problem) { // SLICE!
        return 100 / problem.code; // FAIL
    }
    return 0;
}
