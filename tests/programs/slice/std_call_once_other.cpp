// Pair of std_call_once.cpp: what runs once sets something else.
#include <mutex>
static std::once_flag flag;
static int divisor = 1;
static int label;
static void prepare(int by) {
    label = by; // NOSLICE
}
static void mark(int with) {
    divisor = with; // SLICE!
}
int main(int argc, char **) {
    int by = argc - 1; // NOSLICE
    std::call_once(flag, prepare, by); // NOSLICE
    mark(argc); // SLICE!
    return 100 / divisor; // FAIL
}
