// Exceptions through clones, destructors on the way, virtual calls, templates.
#include <cstdio>
#include <stdexcept>
#include <string>
#include <vector>

#ifdef WITHOUT_THREAD_LOCALS
#define thread_local
#endif

namespace {
struct Hidden {
    int value;
};

int alive;
struct Guard {
    const char *name;
    explicit Guard(const char *n) : name(n) { alive++; }
    ~Guard()
    {
        alive--;
        std::printf("left %s\n", name);
    }
};
} // namespace

struct Shape {
    virtual ~Shape() = default;
    virtual int area() const { return 0; }
};

struct Square : Shape {
    int side;
    explicit Square(int s) : side(s) {}
    int area() const override { return side * side; }
};

thread_local std::string text = "per thread";

template <typename T> __attribute__((noinline)) T twice(T value) { return value + value; }

__attribute__((noinline)) static void throw_one(int kind)
{
    Guard guard("throw_one");
    switch (kind) {
    case 0: throw 42;
    case 1: throw std::runtime_error("an error");
    case 2: throw Hidden{7};
    case 3: throw std::string("words");
    case 4: throw &alive;
    }
    std::puts("nothing thrown");
}

__attribute__((noinline)) static void pass_through(int kind)
{
    Guard guard("pass_through");
    throw_one(kind);
}

__attribute__((noinline)) static int catch_some(int kind)
{
    try {
        pass_through(kind);
    } catch (int number) {
        return number;
    } catch (const std::exception &error) {
        std::printf("caught %s\n", error.what());
        return 1;
    } catch (Hidden &hidden) {
        return hidden.value;
    }
    return 0;
}

__attribute__((noinline)) static int catch_rest(int kind)
{
    try {
        return catch_some(kind);
    } catch (const std::string &words) {
        return static_cast<int>(words.size());
    } catch (...) {
        try {
            throw;
        } catch (int *pointer) {
            return *pointer + 1000;
        }
    }
}

static int starts = twice(20);

int main()
{
    std::vector<Shape *> shapes{new Shape, new Square(3), new Square(starts)};
    int total = 0;
    for (Shape *shape : shapes)
        total += shape->area();
    text += "!";
    for (int kind = 0; kind < 6; kind++)
        std::printf("%d: %d\n", kind, catch_rest(kind));
    std::printf("%d %s %s %d\n", total, text.c_str(), twice(std::string("ab")).c_str(), alive);
    for (Shape *shape : shapes)
        delete shape;
    return 3;
}
