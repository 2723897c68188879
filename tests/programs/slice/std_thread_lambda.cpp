// std::thread with a lambda that holds a copy.
#include <thread>
static int rest;
int main(int argc, char **) {
    int number = argc - 1; // SLICE!
    int other = argc + 1; // NOSLICE
    auto body = [number] { // SLICE!
        rest = 100 / number; // FAIL
    };
    std::thread a(body); // SLICE!
    a.join(); // NOSLICE
    return other; // NOSLICE
}
