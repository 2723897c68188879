// std::thread with a function and an argument by value.
#include <thread>
static int rest;
static void work(int count) {
    rest = 100 / count; // FAIL
}
static void idle(long count) {
    rest = static_cast<int>(count); // NOSLICE
}
int main(int argc, char **) {
    int number = argc - 1; // SLICE!
    long other = argc + 1; // NOSLICE
    std::thread a(work, number); // SLICE!
    a.join(); // NOSLICE
    idle(other); // NOSLICE
    return rest; // NOSLICE
}
