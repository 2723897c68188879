// A virtual call: every override below the static type, nothing beside it.
class Shape {
public:
    virtual int sides(int n) const = 0;
    virtual int corners(int n) const { return n; } // NOSLICE
};
class Circle : public Shape {
public:
    int sides(int n) const override { return n - n; } // SLICE!
    int corners(int n) const override { return n + 1; } // NOSLICE
};
class Square : public Shape {
public:
    int sides(int n) const override { return n * 4; } // SLICE!
};
class Engine {
public:
    virtual int power(int n) const { return n + 7; } // NOSLICE
};
static int share(const Shape &shape, int n) {
    int count = shape.sides(n); // SLICE!
    return 100 / count; // FAIL
}
static int drive(const Engine &engine, int n) {
    return engine.power(n); // NOSLICE
}
int main(int argc, char **) {
    Circle circle;
    Square square;
    Engine engine;
    drive(engine, argc); // NOSLICE
    if (argc > 1) // SLICE!
        return share(circle, argc); // SLICE!
    return share(square, argc); // SLICE!
}
