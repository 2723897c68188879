// Pair of assembly_register.c: the output is written through its address.
int main(int argc, char **argv) {
    (void)argv;
    int in = argc - 1; // SLICE!
    int other = argc + 1; // NOSLICE
    int out;
    int unused;
    __asm__("movl %1, %0" : "=m"(out) : "r"(in)); // SLICE!
    __asm__("movl %1, %0" : "=m"(unused) : "r"(other)); // NOSLICE
    return 10 / out; // FAIL
}
