// The static type lies below the root: siblings of it are not called.
// (The call through Node first had NOSLICE; by class it may reach Leaf::weight
// and pass its argument, so it is left open.)
class Node {
public:
    virtual ~Node() {}
    virtual int weight(int n) { return n; } // NOSLICE
};
class Leaf : public Node {
public:
    int weight(int n) override { return n - 1; } // SLICE!
};
class DryLeaf : public Leaf {
public:
    int weight(int n) override { return n - 2; } // SLICE!
};
class Branch : public Node {
public:
    int weight(int n) override { return n + 5; } // NOSLICE
};
static int share(Leaf *leaf, int n) {
    int count = leaf->weight(n); // SLICE!
    return 100 / count; // FAIL
}
int main(int argc, char **) {
    DryLeaf dry;
    Leaf leaf;
    Branch branch;
    Node *node = &branch;
    node->weight(argc);
    share(&dry, argc); // SLICE!
    return share(&leaf, argc); // SLICE!
}
