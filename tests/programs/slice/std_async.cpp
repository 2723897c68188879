// std::async runs a function on a thread of its own. Waiting is left open: it
// decides when what follows runs.
#include <future>
static int rest;
static int label;
static void work(int by) {
    rest = 100 / by; // FAIL
}
static void mark(int with) {
    label = with; // NOSLICE
}
int main(int argc, char **) {
    int by = argc - 1; // SLICE!
    auto done = std::async(std::launch::async, work, by); // SLICE!
    done.wait();
    mark(argc); // NOSLICE
    return rest + label; // NOSLICE
}
