// One struct is written, another of the same layout is read: no write has the
// name that is read, so what the caller handed over counts, all of it. Whether
// `kind` is in is left open for that reason.
struct header { int kind; int size; };
struct message { int kind; int size; int body; };
static int share(struct header *header) {
    return 100 / header->size; // FAIL
}
int main(int argc, char **argv) {
    (void)argv;
    struct message sent;
    struct message other;
    sent.kind = 1;
    sent.size = argc - 1; // SLICE!
    other.size = argc; // NOSLICE
    share((struct header *)&sent); // SLICE!
    return other.size; // NOSLICE
}
