// Aborts in the way its first argument names, having said why.
#include <cassert>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <future>
#include <stdexcept>
#include <string>
#include <thread>

namespace shop {
struct OutOfStock : std::runtime_error {
    using std::runtime_error::runtime_error;
};
struct Plain { int code; };
}

static void caught(int depth) {
    try {
        throw std::runtime_error("long over " + std::to_string(depth));
    } catch (const std::exception &) {
    }
}
static void refuses() noexcept { throw shop::OutOfStock("not from here"); }

int main(int argc, char **argv) {
    const char *how = argc > 1 ? argv[1] : "";
    int number = argc;
    if (!strcmp(how, "assert")) assert(number == 7 && "seven is asked for");
    if (!strcmp(how, "heap")) { char *volatile p = (char *)malloc(40); free(p); free(p); }
    if (!strcmp(how, "throw")) throw shop::OutOfStock("no kettle of size " + std::to_string(number));
    if (!strcmp(how, "throw-logic")) std::string("abc").at(number + 5);
    if (!strcmp(how, "throw-plain")) throw shop::Plain{3};
    if (!strcmp(how, "throw-int")) throw 7;
    if (!strcmp(how, "throw-noexcept")) refuses();
    if (!strcmp(how, "throw-in-thread"))
        std::thread([] { throw shop::OutOfStock("no tea"); }).join();
    if (!strcmp(how, "rethrow-shared")) {
        auto asked = std::async(std::launch::async, []() -> int { throw shop::OutOfStock("no milk"); });
        asked.get();
    }
    if (!strcmp(how, "abort")) abort();
    // What was thrown and caught before has nothing to do with it.
    if (!strcmp(how, "abort-after-caught")) { for (int i = 0; i < 9; i++) caught(i); abort(); }
    if (!strcmp(how, "broken")) {
        // Words on the stack that look like pointers to an exception and are none.
        volatile unsigned long wild[64];
        for (int i = 0; i < 64; i++) wild[i] = 0x7f0000000000ul + 4096ul * i;
        alignas(16) static unsigned long fake[64];
        fake[32] = 0x474e5543432b2b00ul; // the class of an exception
        fake[32 - 12] = 1;               // that somebody refers to
        fake[32 - 10] = 0x123456789000ul; // of a type that is not there
        wild[5] = (unsigned long)&fake[32];
        fprintf(stderr, "%lx\n", wild[5]);
        abort();
    }
    return 0;
}
