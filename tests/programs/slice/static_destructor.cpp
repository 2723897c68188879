// A global's destructor runs at exit; its constructor and others' wrote first.
static int limit = 1;
static int label;
class Last {
public:
    explicit Last(int n) : count(n) {} // SLICE!
    ~Last() {
        label = 100 / count; // FAIL
    }
    void set(int n) { count = n; } // SLICE!
    int count;
};
static Last last(1); // SLICE!
int main(int argc, char **) {
    limit = argc; // NOSLICE
    last.set(argc - 1); // SLICE!
    return limit; // NOSLICE
}
