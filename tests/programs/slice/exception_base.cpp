// A handler for the base class gets what derives from it, and nothing else.
struct Problem {
    int code;
};
struct Deep : Problem {
    int depth;
};
struct Stranger {
    int number;
};
static int label;
static void check(int n) {
    if (n < 5) { // SLICE!
        Deep deep;
        deep.code = n - 1; // SLICE!
        throw deep; // SLICE!
    }
    if (n < 9) { // NOSLICE
        Stranger stranger;
        stranger.number = n; // NOSLICE
        throw stranger; // NOSLICE
    }
}
int main(int argc, char **) {
    try {
        check(argc); // SLICE!
    } catch (const Problem &problem) { // SLICE!
        return 100 / problem.code; // FAIL
    }
    return label; // NOSLICE
}
