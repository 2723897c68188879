// Pair of std_async.cpp: the function uses a global, not its argument.
#include <future>
static int rest;
static int divisor = 1;
static void work(int) {
    rest = 100 / divisor; // FAIL
}
int main(int argc, char **) {
    int by = argc - 1; // NOSLICE
    divisor = argc - 1; // SLICE!
    auto done = std::async(std::launch::async, work, by); // SLICE!
    done.wait();
    return rest; // NOSLICE
}
