// Pair of virtual_subclass.cpp: the object hangs in a field, so only slot and
// signature choose; another signature is still out.
class Node {
public:
    virtual int weight(int n) { return n; } // SLICE!
};
class Leaf : public Node {
public:
    int weight(int n) override { return n - 1; } // SLICE!
};
class Clock {
public:
    virtual int tick(long n, long m) { return (int)(n + m); } // NOSLICE
};
struct Holder {
    Node *node;
    Clock *clock;
};
static int share(Holder *holder, int n) {
    holder->clock->tick(n, n); // NOSLICE
    int count = holder->node->weight(n); // SLICE!
    return 100 / count; // FAIL
}
int main(int argc, char **) {
    Leaf leaf;
    Clock clock;
    Holder holder;
    holder.node = &leaf; // SLICE!
    holder.clock = &clock; // NOSLICE
    return share(&holder, argc); // SLICE!
}
