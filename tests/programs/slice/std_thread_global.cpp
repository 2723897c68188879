// Pair of std_thread_function.cpp: the thread uses a global.
#include <thread>
static int rest;
static int divisor = 1;
static void work() {
    rest = 100 / divisor; // FAIL
}
int main(int argc, char **) {
    int number = argc - 1; // NOSLICE
    divisor = argc - 1; // SLICE!
    std::thread a(work); // SLICE!
    a.join(); // NOSLICE
    return number; // NOSLICE
}
