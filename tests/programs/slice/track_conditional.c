// Pair of track_implied.c: the call is conditional, so the access behind it
// tells nothing of it, and it keeps its hook.
static int limit = 1;
static int kept;
static int label;
static void fill(int n) {
    limit = n; // SLICE! TRACK
    label = n; // NOSLICE
}
static int work(int n) {
    if (n > 1) // SLICE! TRACK
        fill(n); // SLICE! TRACK
    int copy = limit; // SLICE! TRACK
    return copy; // SLICE! NOTRACK
}
int main(int argc, char **argv) {
    (void)argv;
    int divisor = work(argc); // SLICE!
    kept = 10 / divisor; // FAIL TRACK
    return label; // NOSLICE
}
