// A program as most are.
#include <cstdio>
#include <cstring>

static int length_of(const char *text)
{
    int length = 0;
    while (text[length] != '\0')
        length++;
    return length;
}

int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++)
        std::printf("%d %s\n", length_of(argv[i]), argv[i]);
    return argc > 1 ? 0 : 1;
}
