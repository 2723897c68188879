// Pair of union_member.c: what lies beside the union is read.
union value { int number; float fraction; };
struct box { union value held; int label; };
static struct box box;
static void fill(struct box *into, float with) {
    into->held.fraction = with; // NOSLICE
    into->label = 3; // SLICE!
}
int main(int argc, char **argv) {
    (void)argv;
    fill(&box, (float)argc); // SLICE!
    return 100 / box.label; // FAIL
}
