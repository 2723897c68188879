// Both ways of `put` end in a sum: the optimiser makes one load and one store of them.
#include <string.h>
struct log {
    unsigned long count;
    char text[256];
};
struct file {
    unsigned long size;
    char text[256];
};
static struct log the_log;
static struct file the_file;

__attribute__((noinline)) static void put(struct log *l, struct file *f, const char *text,
                                          unsigned long length)
{
    if (length + l->count > 8) {
        if (f->size > 200)
            return;
        memcpy(f->text + f->size, text, length);
        f->size += length;
    } else {
        memcpy(l->text + l->count, text, length);
        l->count += length;
    }
}

int main(int argc, char **argv)
{
    put(&the_log, &the_file, "abcdefghijkl", 3);
    put(&the_log, &the_file, "abcdefghijkl", 12);
    put(&the_log, &the_file, "abcdefghijkl", 4);
    put(&the_log, &the_file, "abcdefghijkl", 10 + (unsigned long)argc);
    return (int)(the_log.count + the_file.size) + argv[0][0] * 0;
}
