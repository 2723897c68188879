// Pair of std_thread_capture.cpp: both are captured, and the divisor is computed
// from both of them inside.
#include <thread>
static int rest;
int main(int argc, char **) {
    int by = argc - 1; // SLICE!
    int label = argc; // SLICE!
    std::thread a([&by, &label] { // SLICE!
        int both = by * label; // SLICE!
        rest = 100 / both; // FAIL
    });
    a.join(); // NOSLICE
    return rest + label; // NOSLICE
}
