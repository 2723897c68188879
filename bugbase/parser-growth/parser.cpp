// A recursive parser of amounts with units, such as (3+(4*5)cm+7)mm. All its nodes lie
// in one vector, and a level keeps a reference to the node that it made while the levels
// below make the vector grow.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <vector>

struct Node {
    std::string unit;
    char operation = 'n';
    long number = 0;
    std::vector<int> children;
};

class Parser {
public:
    explicit Parser(const std::string &text) : text_(text) { nodes_.reserve(8); }

    int parse() {
        int root = term();
        if (at_ != text_.size())
            throw std::runtime_error("text after the end");
        return root;
    }

    long value(int index) const {
        const Node &node = nodes_[index];
        if (node.operation == 'n')
            return node.number;
        long result = node.operation == '+' ? 0 : 1;
        for (int child : node.children) {
            long part = value(child);
            result = (node.operation == '+' ? result + part : result * part) % 1000003;
        }
        return node.unit == "cm" ? result * 10 : result;
    }

private:
    int term() {
        int index = static_cast<int>(nodes_.size());
        nodes_.push_back(Node());
        if (peek() != '(') {
            nodes_[index].number = number();
            return index;
        }
        at_++;
#ifdef FIXED
        std::vector<int> children;
        char operation = '+';
        while (peek() != ')') {
            children.push_back(term());
            if (peek() == '+' || peek() == '*')
                operation = text_[at_++];
        }
        at_++;
        Node &node = nodes_[index];
        node.children = children;
        node.operation = operation;
#else
        Node &node = nodes_.back();
        node.operation = '+';
        while (peek() != ')') {
            int child = term();
            node.children.push_back(child);
            if (peek() == '+' || peek() == '*')
                node.operation = text_[at_++];
        }
        at_++;
#endif
        while (peek() >= 'a' && peek() <= 'z')
            node.unit += text_[at_++];
        return index;
    }

    long number() {
        long result = 0;
        while (peek() >= '0' && peek() <= '9')
            result = result * 10 + (text_[at_++] - '0');
        return result;
    }

    char peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }

    const std::string &text_;
    size_t at_ = 0;
    std::vector<Node> nodes_;
};

static unsigned roll(unsigned &seed, unsigned sides) {
    seed = seed * 1103515245 + 12345;
    return (seed >> 16) % sides;
}

static std::string amount(unsigned &seed, int depth) {
    if (depth == 0 || roll(seed, 3) == 0)
        return std::to_string(roll(seed, 90) + 1);
    std::string text = "(" + amount(seed, depth - 1);
    for (unsigned i = roll(seed, 2) + 1; i > 0; i--)
        text += (roll(seed, 2) ? "+" : "*") + amount(seed, depth - 1);
    unsigned unit = roll(seed, 90);
    return text + ")" + (unit == 0 ? "mm" : unit == 1 ? "cm" : "");
}

int main(int argc, char **argv) {
    int amounts = argc > 1 ? atoi(argv[1]) : 24;
    int depth = argc > 2 ? atoi(argv[2]) : 3;
    unsigned seed = std::chrono::steady_clock::now().time_since_epoch().count();
    long total = 0;
    for (int i = 0; i < amounts; i++) {
        std::string text = amount(seed, roll(seed, 12) ? depth - 1 : depth);
        Parser parser(text);
        int root = parser.parse();
        for (int round = 1; round <= 4000; round++)
            total += parser.value(root) % round;
    }
    printf("%s\n", total ? "done" : "nothing");
    return 0;
}
