// Calls that run just when a later tracked access does need no hook of their
// own: its record tells of them. `fill` is followed by the load of `limit` in
// the same run of `work`, so it is implied. The marks speak of the
// pruned plan for the whole slice.
static int limit = 1;
static int kept;
static int label;
static void fill(int n) {
    limit = n; // SLICE! TRACK
    label = n; // NOSLICE
}
static int work(int n) {
    fill(n); // SLICE! NOTRACK
    int copy = limit; // SLICE! TRACK
    return copy; // SLICE! NOTRACK
}
int main(int argc, char **argv) {
    (void)argv;
    int divisor = work(argc); // SLICE!
    kept = 10 / divisor; // FAIL TRACK
    return label; // NOSLICE
}
