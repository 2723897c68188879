// Inline assembly depends on its inputs.
int main(int argc, char **argv) {
    (void)argv;
    int in = argc - 1; // SLICE!
    int other = argc + 1; // NOSLICE
    int out;
    int unused;
    __asm__("movl %1, %0" : "=r"(out) : "r"(in)); // SLICE!
    __asm__("movl %1, %0" : "=r"(unused) : "r"(other)); // NOSLICE
    return 10 / out; // FAIL
}
