// A union: written as one member, read as the other.
union value { int number; float fraction; };
struct box { union value held; int label; };
static struct box box;
static void fill(struct box *into, float with) {
    into->held.fraction = with; // SLICE!
    into->label = 3; // NOSLICE
}
int main(int argc, char **argv) {
    (void)argv;
    fill(&box, (float)argc); // SLICE!
    return 100 / box.held.number; // FAIL
}
