// A few hundred branches as people write them: a tokeniser, a calculator, a
// compressor, a hash table, a small interpreter. What is done depends on the
// arguments, so that many branches go one way in some runs only.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CLAMP(x, low, high) ((x) < (low) ? (low) : (x) > (high) ? (high) : (x))
#define CHECK(x) do { if (!(x)) failures++; } while (0)

static unsigned state;
static int failures;
static unsigned char input[4096], packed[8192], unpacked[4096];

static unsigned next_random(void)
{
    state = state * 1664525u + 1013904223u;
    return state >> 8;
}

/* A tokeniser and a calculator. */
enum kind { END, NUMBER, PLUS, MINUS, TIMES, OVER, OPEN, CLOSE, BAD };
struct lexer { const char *at; enum kind kind; long value; };

static int is_digit(char c) { return c >= '0' && c <= '9'; }
static int is_blank(char c) { return c == ' ' || c == '\t' || c == '\n'; }

static void advance(struct lexer *l)
{
    while (is_blank(*l->at))
        l->at++;
    if (!*l->at) {
        l->kind = END;
        return;
    }
    if (is_digit(*l->at)) {
        l->value = 0;
        while (is_digit(*l->at)) {
            if (l->value > 100000) {
                l->kind = BAD;
                return;
            }
            l->value = l->value * 10 + (*l->at++ - '0');
        }
        l->kind = NUMBER;
        return;
    }
    switch (*l->at++) {
    case '+': l->kind = PLUS; break;
    case '-': l->kind = MINUS; break;
    case '*': l->kind = TIMES; break;
    case '/': l->kind = OVER; break;
    case '(': l->kind = OPEN; break;
    case ')': l->kind = CLOSE; break;
    default: l->kind = BAD; break;
    }
}

static long expression(struct lexer *l, int depth, int *error);

static long factor(struct lexer *l, int depth, int *error)
{
    long value;
    if (depth > 20) {
        *error = 1;
        return 0;
    }
    if (l->kind == NUMBER) {
        value = l->value;
        advance(l);
        return value;
    }
    if (l->kind == MINUS) {
        advance(l);
        return -factor(l, depth + 1, error);
    }
    if (l->kind != OPEN) {
        *error = 1;
        return 0;
    }
    advance(l);
    value = expression(l, depth + 1, error);
    if (l->kind != CLOSE)
        *error = 1;
    else
        advance(l);
    return value;
}

static long term(struct lexer *l, int depth, int *error)
{
    long value = factor(l, depth, error);
    while (!*error && (l->kind == TIMES || l->kind == OVER)) {
        int divides = l->kind == OVER;
        advance(l);
        long other = factor(l, depth, error);
        if (divides && other == 0) {
            *error = 1;
            break;
        }
        value = divides ? value / other : value * other;
    }
    return value;
}

static long expression(struct lexer *l, int depth, int *error)
{
    long value = term(l, depth, error);
    for (;;) {
        if (*error)
            return 0;
        if (l->kind == PLUS) {
            advance(l);
            value += term(l, depth, error);
        } else if (l->kind == MINUS) {
            advance(l);
            value -= term(l, depth, error);
        } else {
            break;
        }
    }
    return value;
}

static void make_expression(char *to, int length)
{
    static const char alphabet[] = "0123456789+-*/() ";
    int at = 0;
    while (at < length - 1)
        to[at++] = alphabet[next_random() % (sizeof alphabet - 1)];
    to[at] = 0;
}

/* A compressor of the LZ kind. */
static int match_length(const unsigned char *a, const unsigned char *b, int most)
{
    int n = 0;
    while (n < most && a[n] == b[n])
        n++;
    return n;
}

static int pack(const unsigned char *from, int length, unsigned char *to)
{
    int at = 0, out = 0;
    while (at < length) {
        int best = 0, where = 0;
        int start = at > 255 ? at - 255 : 0;
        for (int p = start; p < at; p++) {
            int most = length - at < 255 ? length - at : 255;
            int n = match_length(from + p, from + at, most);
            if (n > best) {
                best = n;
                where = at - p;
                if (best >= 64)
                    break;
            }
        }
        if (best > 3) {
            to[out++] = 1;
            to[out++] = (unsigned char)best;
            to[out++] = (unsigned char)where;
            at += best;
        } else {
            to[out++] = 0;
            to[out++] = from[at++];
        }
    }
    return out;
}

static int unpack(const unsigned char *from, int length, unsigned char *to)
{
    int out = 0;
    for (int at = 0; at < length;) {
        if (from[at] == 0) {
            to[out++] = from[at + 1];
            at += 2;
            continue;
        }
        int n = from[at + 1], back = from[at + 2];
        for (int i = 0; i < n; i++, out++)
            to[out] = to[out - back];
        at += 3;
    }
    return out;
}

/* A hash table with open addressing. */
#define SLOTS 64
struct entry { unsigned key; int used; int value; };
static struct entry entries[SLOTS];

static struct entry *slot_of(unsigned key)
{
    unsigned at = (key * 2654435761u) >> 26;
    struct entry *grave = 0;
    for (int probes = 0; probes < SLOTS; probes++) {
        struct entry *e = &entries[(at + probes) % SLOTS];
        if (e->used == 0)
            return grave ? grave : e;
        if (e->used == 2) {
            if (!grave)
                grave = e;
        } else if (e->key == key) {
            return e;
        }
    }
    return grave;
}

static int put(unsigned key, int value)
{
    struct entry *e = slot_of(key);
    if (!e)
        return -1;
    int fresh = e->used != 1;
    e->key = key;
    e->used = 1;
    e->value = value;
    return fresh;
}

static int take(unsigned key)
{
    struct entry *e = slot_of(key);
    if (!e || e->used != 1 || e->key != key)
        return 0;
    e->used = 2;
    return 1;
}

/* An interpreter. */
enum op { PUSH, ADD, SUB, DUP, JUMP_IF, DROP, SWAP, HALT };
struct instruction { enum op op; int operand; };

static int interpret(const struct instruction *code, int length, int budget)
{
    int stack[16], top = 0, at = 0;
    while (at >= 0 && at < length && budget-- > 0) {
        struct instruction i = code[at++];
        switch (i.op) {
        case PUSH:
            if (top == 16)
                return -1;
            stack[top++] = i.operand;
            break;
        case ADD:
            if (top < 2)
                return -2;
            stack[top - 2] += stack[top - 1];
            top--;
            break;
        case SUB:
            if (top < 2)
                return -2;
            stack[top - 2] -= stack[top - 1];
            top--;
            break;
        case DUP:
            if (top == 0 || top == 16)
                return -3;
            stack[top] = stack[top - 1];
            top++;
            break;
        case JUMP_IF:
            if (top == 0)
                return -2;
            if (stack[--top] > 0)
                at = i.operand;
            break;
        case DROP:
            if (top > 0)
                top--;
            break;
        case SWAP:
            if (top >= 2) {
                int t = stack[top - 1];
                stack[top - 1] = stack[top - 2];
                stack[top - 2] = t;
            }
            break;
        case HALT:
            return top ? stack[top - 1] : 0;
        }
    }
    return budget < 0 ? -9 : top;
}

/* Text. */
static int utf8_length(const unsigned char *s, int n)
{
    int count = 0;
    for (int i = 0; i < n; count++) {
        int more = s[i] < 0x80 ? 0 : (s[i] & 0xe0) == 0xc0 ? 1 : (s[i] & 0xf0) == 0xe0 ? 2 : -1;
        if (more < 0 || i + more >= n)
            return -1;
        for (i++; more > 0; more--, i++)
            if ((s[i] & 0xc0) != 0x80)
                return -1;
    }
    return count;
}

static int glob(const char *pattern, const char *text)
{
    for (; *pattern; pattern++, text++) {
        if (*pattern == '*') {
            while (*pattern == '*')
                pattern++;
            if (!*pattern)
                return 1;
            for (; *text; text++)
                if (glob(pattern, text))
                    return 1;
            return 0;
        }
        if (!*text || (*pattern != '?' && *pattern != *text))
            return 0;
    }
    return !*text;
}

static void heap_sort(int *v, int n)
{
    for (int start = n / 2 - 1, end = n - 1; end > 0;) {
        int root;
        if (start >= 0) {
            root = start--;
        } else {
            int t = v[0];
            v[0] = v[end];
            v[end--] = t;
            root = 0;
        }
        for (int child; (child = 2 * root + 1) <= end; root = child) {
            if (child + 1 <= end && v[child] < v[child + 1])
                child++;
            if (v[root] >= v[child])
                break;
            int t = v[root];
            v[root] = v[child];
            v[child] = t;
        }
    }
}

static int life(int generations)
{
    static unsigned char grid[2][16][16];
    int alive = 0, now = 0;
    for (int y = 0; y < 16; y++)
        for (int x = 0; x < 16; x++)
            grid[0][y][x] = next_random() % 3 == 0;
    while (generations-- > 0) {
        alive = 0;
        for (int y = 0; y < 16; y++) {
            for (int x = 0; x < 16; x++) {
                int n = 0;
                for (int dy = -1; dy <= 1; dy++)
                    for (int dx = -1; dx <= 1; dx++)
                        if (dx || dy)
                            n += grid[now][(y + dy) & 15][(x + dx) & 15];
                int lives = grid[now][y][x] ? n == 2 || n == 3 : n == 3;
                grid[!now][y][x] = (unsigned char)lives;
                alive += lives;
            }
        }
        now = !now;
        if (alive == 0)
            goto extinct;
    }
    return alive;
extinct:
    return -1;
}

int main(int argc, char **argv)
{
    state = argc > 1 ? (unsigned)atoi(argv[1]) * 7919u : 1;
    int mode = argc > 2 ? atoi(argv[2]) : 0;
    long checksum = 0;
    for (int i = 0; i < 30; i++) {
        char text[40];
        make_expression(text, 4 + (int)(next_random() % 30));
        struct lexer l = {text, END, 0};
        int error = 0;
        advance(&l);
        long value = expression(&l, 0, &error);
        if (error || l.kind != END)
            checksum ^= i;
        else
            checksum += value;
    }
    int length = 100 + mode * 20;
    for (int i = 0; i < length; i++)
        input[i] = (unsigned char)(next_random() % (mode + 2));
    int n = pack(input, length, packed);
    CHECK(unpack(packed, n, unpacked) == length);
    CHECK(memcmp(input, unpacked, (size_t)length) == 0);
    for (int i = 0; i < 40 + mode * 8; i++) {
        unsigned key = next_random() % 90;
        if (next_random() % 4 == 0)
            checksum += take(key);
        else
            checksum += put(key, i);
    }
    struct instruction code[24];
    for (int i = 0; i < 24; i++) {
        code[i].op = next_random() % 8;
        code[i].operand = (int)(next_random() % 24);
    }
    checksum += interpret(code, 24, 200);
    checksum += utf8_length(input, CLAMP(mode, 1, 9));
    checksum += utf8_length((const unsigned char *)"gr\xc3\xbc\xc3\x9f dich", mode + 4);
    checksum += glob("a*b?c*", mode & 1 ? "aXXbYcZ" : "aXXbYd");
    int v[32];
    for (int i = 0; i < 32; i++)
        v[i] = (int)(next_random() % 1000);
    heap_sort(v, 5 + mode * 2);
    checksum += v[3];
    if (mode > 3)
        checksum += life(mode);
    printf("%ld %d\n", checksum, failures);
    return failures != 0;
}
