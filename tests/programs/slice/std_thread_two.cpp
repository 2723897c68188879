// Two threads of different routines: one's argument is not the other's global.
// (The third creation first had NOSLICE. Instances of one template are one
// record here, so the tuples in which std::thread keeps arguments are not told
// apart, and it is left open; what the third thread does is not.)
#include <thread>
static int rest;
static int divisor = 1;
static void work() {
    rest = 100 / divisor; // FAIL
}
static void clear(int n) {
    divisor = n; // SLICE!
}
static void idle(long n) {
    rest = static_cast<int>(n); // NOSLICE
}
int main(int argc, char **) {
    int number = argc - 1; // SLICE!
    std::thread a(work); // SLICE!
    std::thread b(clear, number); // SLICE!
    std::thread c(idle, 5L);
    a.join(); // NOSLICE
    b.join(); // NOSLICE
    c.join(); // NOSLICE
    return 0;
}
