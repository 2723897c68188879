// Pair of std_thread_arguments.cpp: both threads run the failing function.
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
    int one = argc + 1; // SLICE!
    std::thread a(left, zero); // SLICE!
    std::thread b(left, one); // SLICE!
    a.join(); // NOSLICE
    b.join(); // NOSLICE
    right(argc); // NOSLICE
    return rest + other; // NOSLICE
}
