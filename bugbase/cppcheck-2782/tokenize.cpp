// The tokenizer of cppcheck 1.48, in miniature: a file that ends in an #asm block
// leaves a token without a successor, and removeMacrosInGlobalScope follows it.
//
// The preprocessor turns "#asm ... #endasm" into a call, asm(...), with nothing
// behind it. removeMacrosInGlobalScope looks for names with brackets in the global
// scope, goes to the closing bracket and asks what follows, without asking whether
// anything does. The historical fix asks; -DFIXED builds it.
//
// Only the structure is the original's. The list of tokens that remains is
// checked for balanced brackets and counted.
#include <cctype>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iostream>
#include <sstream>
#include <string>

// A token of a doubly linked list.
class Token {
public:
    explicit Token(const std::string &str)
        : _str(str), _next(nullptr), _previous(nullptr), _link(nullptr)
    {
    }

    const std::string &str() const
    {
        return _str;
    }

    Token *next() const
    {
        return _next;
    }

    Token *previous() const
    {
        return _previous;
    }

    Token *link() const
    {
        return _link;
    }

    bool isName() const;

    std::string _str;
    Token *_next;
    Token *_previous;
    Token *_link;
};

class Tokenizer {
public:
    Tokenizer() : _tokens(nullptr), _tokensBack(nullptr), _unbalanced(0)
    {
    }

    ~Tokenizer();

    void tokenize(const std::string &code);
    void createLinks();
    void removeMacrosInGlobalScope();
    int count() const;

    int unbalanced() const
    {
        return _unbalanced;
    }

private:
    void addtoken(const std::string &str);
    Token *eraseUntil(Token *from, Token *to);

    Token *_tokens;
    Token *_tokensBack;
    int _unbalanced;
};

bool Token::isName() const
{
    return std::isalpha((unsigned char)_str[0]) || _str[0] == '_';
}

Tokenizer::~Tokenizer()
{
    while (_tokens) {
        Token *next = _tokens->_next;
        delete _tokens;
        _tokens = next;
    }
}

void Tokenizer::addtoken(const std::string &str)
{
    Token *tok = new Token(str);
    tok->_previous = _tokensBack;
    if (_tokensBack)
        _tokensBack->_next = tok;
    else
        _tokens = tok;
    _tokensBack = tok;
}

// Splits code into names, numbers, strings and single characters.
void Tokenizer::tokenize(const std::string &code)
{
    for (size_t i = 0; i < code.size();) {
        const char c = code[i];
        size_t end = i + 1;
        if (std::isspace((unsigned char)c)) {
            i = end;
            continue;
        }
        if (std::isalnum((unsigned char)c) || c == '_') {
            while (end < code.size() && (std::isalnum((unsigned char)code[end]) || code[end] == '_'))
                end++;
        } else if (c == '"') {
            while (end < code.size() && code[end] != '"')
                end++;
            end = end < code.size() ? end + 1 : end;
        }
        addtoken(code.substr(i, end - i));
        i = end;
    }
}

// Connects each opening bracket with its closing one.
void Tokenizer::createLinks()
{
    Token *open[256];
    int depth = 0;
    for (Token *tok = _tokens; tok; tok = tok->next()) {
        if (tok->str() == "(" && depth < 256) {
            open[depth++] = tok;
        } else if (tok->str() == ")") {
            if (depth == 0) {
                _unbalanced++;
                continue;
            }
            Token *opening = open[--depth];
            opening->_link = tok;
            tok->_link = opening;
        }
    }
    _unbalanced += depth;
}

// Takes the tokens from `from` up to and including `to` out; returns what follows.
Token *Tokenizer::eraseUntil(Token *from, Token *to)
{
    Token *before = from->_previous;
    Token *behind = to->_next;
    while (from != behind) {
        Token *next = from->_next;
        delete from;
        from = next;
    }
    if (before)
        before->_next = behind;
    else
        _tokens = behind;
    if (behind)
        behind->_previous = before;
    else
        _tokensBack = before;
    return behind;
}

// NAME(...) in the global scope that neither declares nor defines anything is a
// macro, and taken out.
void Tokenizer::removeMacrosInGlobalScope()
{
    int scope = 0;
    Token *tok = _tokens;
    while (tok) {
        if (tok->str() == "{")
            scope++;
        else if (tok->str() == "}")
            scope--;
        if (scope == 0 && tok->isName() && tok->next() && tok->next()->str() == "(" && tok->next()->link()) {
            Token *tok2 = tok->next()->link();
            tok2 = tok2->next();
#ifdef FIXED
            if (tok2 == nullptr)
                break;
#endif
            if (tok2->isName() && tok2->str() != "const") {
                tok = eraseUntil(tok, tok2->previous());
                continue;
            }
        }
        tok = tok->next();
    }
}

int Tokenizer::count() const
{
    int tokens = 0;
    for (const Token *tok = _tokens; tok; tok = tok->next())
        tokens++;
    return tokens;
}

// Removes comments and directives; assembly between #asm and #endasm becomes asm("...").
static std::string preprocess(std::istream &in)
{
    std::string code, line;
    bool assembly = false;
    while (std::getline(in, line)) {
        if (line.compare(0, 4, "#asm") == 0) {
            assembly = true;
            code += "asm(\"";
        } else if (line.compare(0, 7, "#endasm") == 0) {
            assembly = false;
            code += "\")\n";
        } else if (assembly) {
            code += line + " ";
        } else if (line.empty() || line[0] != '#') {
            code += line.substr(0, line.find("//")) + "\n";
        }
    }
    return code;
}

static int checkFile(const char *path)
{
    std::ifstream file(path);
    if (!file) {
        std::cerr << "cppcheck: cannot read " << path << "\n";
        return 2;
    }
    Tokenizer tokenizer;
    tokenizer.tokenize(preprocess(file));
    tokenizer.createLinks();
    const int before = tokenizer.count();
    tokenizer.removeMacrosInGlobalScope();
    std::cout << path << ": " << before << " tokens, " << tokenizer.count() << " without macros, "
              << tokenizer.unbalanced() << " brackets unbalanced\n";
    return 0;
}

int main(int argc, char **argv)
{
    if (argc < 2) {
        std::cerr << "usage: tokenize FILE…\n";
        return 2;
    }
    for (int i = 1; i < argc; i++) {
        const int result = checkFile(argv[i]);
        if (result != 0)
            return result;
    }
    return 0;
}
