// std::ref hands over a reference wrapped in an object.
#include <functional>
#include <thread>
struct Job {
    int count;
    int label;
};
static int rest;
static void work(Job &job) {
    rest = 100 / job.count; // FAIL
}
int main(int argc, char **) {
    Job job;
    job.count = argc - 1; // SLICE!
    std::thread a(work, std::ref(job)); // SLICE!
    a.join(); // NOSLICE
    job.label = argc; // NOSLICE
    return rest; // NOSLICE
}
