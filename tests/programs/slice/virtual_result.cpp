// A virtual call on what a function returns: the other class's method has
// another signature. (Source::next first had SLICE!; no Source is ever made, so
// clang emits neither its table nor its body.)
class Source {
public:
    virtual int next(int n) { return n; }
};
class Empty : public Source {
public:
    int next(int n) override { return n - n; } // SLICE!
};
class Sink {
public:
    virtual int put(long n) { return (int)n; } // NOSLICE
};
static Empty empty;
static Source *find(int n) {
    return &empty; // SLICE!
}
int main(int argc, char **) {
    Sink sink;
    Sink *into = &sink; // NOSLICE
    into->put(argc); // NOSLICE
    int divisor = find(argc)->next(argc); // SLICE!
    return 100 / divisor; // FAIL
}
