// C++: a member function, a reference, a destructor, an exception path.
#include <stdexcept>
namespace store {
class Shelf {
public:
    explicit Shelf(int n) : slots(n), label(n + 1) {} // SLICE!
    ~Shelf() { label = 0; } // NOSLICE
    int share(int total) const {
        return total / slots; // FAIL
    }
    void empty() {
        slots = 0; // SLICE!
        label = 7; // NOSLICE
    }
private:
    int slots;
    int label;
};
}
static void tidy(store::Shelf &shelf, int n) {
    if (n > 3) // SLICE!
        throw std::runtime_error("too many"); // NOSLICE
    shelf.empty(); // SLICE!
}
int main(int argc, char **) {
    store::Shelf shelf(argc); // SLICE!
    tidy(shelf, argc); // SLICE!
    int whole = 12; // SLICE!
    return shelf.share(whole); // SLICE!
}
