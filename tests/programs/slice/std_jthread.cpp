// std::jthread hands over its argument as std::thread does.
// FLAGS -std=c++20
#include <thread>
static int rest;
static void work(int by) {
    rest = 100 / by; // FAIL
}
int main(int argc, char **) {
    int by = argc - 1; // SLICE!
    int label = argc; // NOSLICE
    std::jthread a(work, by); // SLICE!
    return label; // NOSLICE
}
