// Two threads of one type: each is given its own argument.
#include <thread>
static int rest;
static int other;
static void left(int by) {
    rest = 100 / by; // FAIL
}
static void right(int by) {
    other = by; // NOSLICE
}
int main(int argc, char **) {
    int zero = argc - 1; // SLICE!
    int one = argc + 1; // NOSLICE
    std::thread a(left, zero); // SLICE!
    std::thread b(right, one); // NOSLICE
    a.join(); // NOSLICE
    b.join(); // NOSLICE
    return rest + other; // NOSLICE
}
