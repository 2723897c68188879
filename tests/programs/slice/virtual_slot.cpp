// Pair of virtual_call.cpp: the other slot of the same table.
class Shape {
public:
    virtual int sides(int n) const = 0;
    virtual int corners(int n) const { return n; } // SLICE!
};
class Circle : public Shape {
public:
    int sides(int n) const override { return n - n; } // NOSLICE
    int corners(int n) const override { return n + 1; } // SLICE!
};
static int share(const Shape &shape, int n) {
    int count = shape.corners(n); // SLICE!
    return 100 / count; // FAIL
}
int main(int argc, char **) {
    Circle circle;
    return share(circle, argc); // SLICE!
}
