// CheckObsoleteFunctions of cppcheck 1.52, in miniature: a call that is the first
// token of the file has no token before it.
//
// For each call of a function on the list of obsolete ones, the check looks at the
// token before, to leave members and declarations alone. If the call is the very
// first token, previous() is null, and its string is read all the same. The
// historical fix begins behind the first token; -DFIXED builds a test for null.
//
// Only the structure is the original's. The messages are counted, not shown.
#include <cctype>
#include <fstream>
#include <iostream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

// A token of a doubly linked list.
class Token {
public:
    Token(const std::string &str, int line)
        : _str(str), _linenr(line), _next(nullptr), _previous(nullptr)
    {
    }

    const std::string &str() const
    {
        return _str;
    }

    const Token *next() const
    {
        return _next;
    }

    const Token *previous() const
    {
        return _previous;
    }

    int linenr() const
    {
        return _linenr;
    }

    bool isName() const;

    std::string _str;
    int _linenr;
    Token *_next;
    Token *_previous;
};

// The list of a file's tokens.
class TokenList {
public:
    TokenList() : _front(nullptr), _back(nullptr)
    {
    }

    ~TokenList();

    void addtoken(const std::string &str, int line);
    void tokenize(std::istream &in);

    const Token *front() const
    {
        return _front;
    }

private:
    Token *_front;
    Token *_back;
};

class CheckObsoleteFunctions {
public:
    explicit CheckObsoleteFunctions(const TokenList &tokens);

    void obsoleteFunctions();

    const std::vector<std::string> &messages() const
    {
        return _messages;
    }

private:
    bool isDeclared(const Token *tok) const;

    const TokenList &_tokens;
    std::map<std::string, std::string> _obsoleteStandardFunctions;
    std::vector<std::string> _messages;
};

bool Token::isName() const
{
    return std::isalpha((unsigned char)_str[0]) || _str[0] == '_';
}

TokenList::~TokenList()
{
    while (_front) {
        Token *next = _front->_next;
        delete _front;
        _front = next;
    }
}

void TokenList::addtoken(const std::string &str, int line)
{
    Token *tok = new Token(str, line);
    tok->_previous = _back;
    if (_back)
        _back->_next = tok;
    else
        _front = tok;
    _back = tok;
}

// Names and numbers are tokens, and so is every other character.
void TokenList::tokenize(std::istream &in)
{
    std::string line;
    for (int number = 1; std::getline(in, line); number++) {
        const size_t comment = line.find("//");
        if (comment != std::string::npos)
            line.erase(comment);
        if (!line.empty() && line[0] == '#')
            continue;
        for (size_t i = 0; i < line.size();) {
            size_t end = i + 1;
            if (std::isspace((unsigned char)line[i])) {
                i = end;
                continue;
            }
            if (std::isalnum((unsigned char)line[i]) || line[i] == '_') {
                while (end < line.size() && (std::isalnum((unsigned char)line[end]) || line[end] == '_'))
                    end++;
            }
            addtoken(line.substr(i, end - i), number);
            i = end;
        }
    }
}

CheckObsoleteFunctions::CheckObsoleteFunctions(const TokenList &tokens) : _tokens(tokens)
{
    _obsoleteStandardFunctions["gets"] = "use fgets";
    _obsoleteStandardFunctions["bcopy"] = "use memmove";
    _obsoleteStandardFunctions["bzero"] = "use memset";
    _obsoleteStandardFunctions["index"] = "use strchr";
    _obsoleteStandardFunctions["gethostbyname"] = "use getaddrinfo";
    _obsoleteStandardFunctions["usleep"] = "use nanosleep";
}

// Whether the file itself declares a function of that name.
bool CheckObsoleteFunctions::isDeclared(const Token *tok) const
{
    for (const Token *at = _tokens.front(); at && at != tok; at = at->next()) {
        if (at->str() == "static" && at->next() && at->next()->next() && at->next()->next()->str() == tok->str())
            return true;
    }
    return false;
}

void CheckObsoleteFunctions::obsoleteFunctions()
{
    for (const Token *tok = _tokens.front(); tok; tok = tok->next()) {
        if (!tok->isName() || !tok->next() || tok->next()->str() != "(")
            continue;
        const auto found = _obsoleteStandardFunctions.find(tok->str());
        if (found == _obsoleteStandardFunctions.end() || isDeclared(tok))
            continue;
        const Token *before = tok->previous();
#ifdef FIXED
        if (before == nullptr)
            continue;
#endif
        if (before->str() == "." || before->isName())
            continue;
        std::ostringstream message;
        message << tok->linenr() << ": " << tok->str() << " is obsolete, " << found->second;
        _messages.push_back(message.str());
    }
}

static int checkFile(const char *path)
{
    std::ifstream file(path);
    if (!file) {
        std::cerr << "cppcheck: cannot read " << path << "\n";
        return 2;
    }
    TokenList tokens;
    tokens.tokenize(file);
    CheckObsoleteFunctions check(tokens);
    check.obsoleteFunctions();
    std::cout << path << ": " << check.messages().size() << " messages\n";
    return 0;
}

int main(int argc, char **argv)
{
    if (argc < 2) {
        std::cerr << "usage: obsolete FILE…\n";
        return 2;
    }
    for (int i = 1; i < argc; i++) {
        const int result = checkFile(argv[i]);
        if (result != 0)
            return result;
    }
    return 0;
}
