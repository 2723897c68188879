// A local that is filled through its address.
static void fill(int *into, int *beside) {
    *into = 0;   // SLICE!
    *beside = 1; // NOSLICE
}
int main(void) {
    int divisor;
    int other;
    fill(&divisor, &other); // SLICE!
    return 10 / divisor; // FAIL
}
