// Pair of track_shared.c: the same on one thread's own stack; only what decides
// and what is global is tracked.
static int rest;
static int spend(int given) {
    int left = given; // SLICE! NOTRACK
    if (left > 100) // SLICE! TRACK
        return 0; // NOSLICE NOTRACK
    rest = 10 / left; // FAIL TRACK
    return rest; // NOSLICE NOTRACK
}
int main(int argc, char **argv) {
    (void)argv;
    int start = argc; // SLICE! NOTRACK
    int number = start - 1; // SLICE! NOTRACK
    return spend(number); // SLICE!
}
