// ALIAS field
// Two calls of one parser store through two parameters: what was given to the one call
// says nothing of what the other stored.
static int parse(const char *text, int *into) {
    int value = text[0] - '0'; // SLICE! WITHIN 6
    *into = value;             // SLICE! WITHIN 4
    return value >= 0;
}
int main(int argc, char **argv) {
    (void)argc;
    int width, height;
    const char *first = argv[1] + 2;  // NOSLICE
    const char *second = argv[2] + 1; // SLICE! WITHIN 8
    parse(first, &width);             // NOSLICE
    parse(second, &height);           // SLICE! WITHIN 4
    return 10 / height; // FAIL
}
