// std::call_once runs what it is given on the calling thread.
#include <mutex>
static std::once_flag flag;
static int divisor = 1;
static int label;
static void prepare(int by) {
    divisor = by; // SLICE!
}
static void mark(int with) {
    label = with; // NOSLICE
}
int main(int argc, char **) {
    int by = argc - 1; // SLICE!
    std::call_once(flag, prepare, by); // SLICE!
    mark(argc); // NOSLICE
    return 100 / divisor; // FAIL
}
