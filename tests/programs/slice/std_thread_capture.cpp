// A lambda captures a local by reference; another local stays outside.
#include <thread>
static int rest;
int main(int argc, char **) {
    int by = argc - 1; // SLICE!
    int label = argc; // NOSLICE
    std::thread a([&by] { // SLICE!
        rest = 100 / by; // FAIL
    });
    a.join(); // NOSLICE
    return rest + label; // NOSLICE
}
