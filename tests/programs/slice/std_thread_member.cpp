// Pair of std_thread_lambda.cpp: a member function and its object.
// ALIAS field
#include <thread>
static int rest;
class Worker {
public:
    void run() {
        rest = 100 / count; // FAIL
    }
    int count = 1;
    int label = 1;
};
int main(int argc, char **) {
    Worker worker;
    worker.count = argc - 1; // SLICE!
    std::thread a(&Worker::run, &worker); // SLICE!
    a.join(); // NOSLICE
    worker.label = argc; // NOSLICE
    return rest; // NOSLICE
}
