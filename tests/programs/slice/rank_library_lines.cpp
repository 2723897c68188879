// Lines of the C++ library are passed through and take no place: what was put into the
// vector is near.
#include <vector>
static std::vector<int> values;
static int count;
static void add(int given) {
    values.push_back(given); // SLICE! WITHIN 8
    count++; // NOSLICE
}
int main(int argc, char **argv) {
    (void)argv;
    add(argc * 3); // SLICE! WITHIN 12
    int last = values.back(); // SLICE! WITHIN 2
    int share = 10 / last; // FAIL
    return share + count; // NOSLICE
}
