// Pair of std_jthread.cpp: the thread uses a global.
// FLAGS -std=c++20
#include <thread>
static int rest;
static int divisor = 1;
static void work(int) {
    rest = 100 / divisor; // FAIL
}
int main(int argc, char **) {
    int by = argc - 1; // NOSLICE
    divisor = argc - 1; // SLICE!
    std::jthread a(work, by); // SLICE!
    return by; // NOSLICE
}
