// A local that is filled through its address.
static void fill(int *into, int *beside) {
    *into = 0;   // SLICE! TRACK
    *beside = 1; // NOSLICE NOTRACK
}
int main(void) {
    int divisor;
    int other;
    fill(&divisor, &other); // SLICE! TRACK
    return 10 / divisor; // FAIL
}
