// Pair of struct_punned.c: the struct that is read is the one that is written,
// so only the field counts.
struct message { int kind; int size; int body; };
static int share(struct message *message) {
    return 100 / message->size; // FAIL
}
int main(int argc, char **argv) {
    (void)argv;
    struct message sent;
    sent.kind = 1; // NOSLICE
    sent.size = argc - 1; // SLICE!
    sent.body = argc; // NOSLICE
    return share(&sent); // SLICE!
}
