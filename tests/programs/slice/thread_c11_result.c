// Pair of thread_c11.c: the failing thread takes another's result.
#include <threads.h>
#include <stddef.h>
static int work(void *given) {
    int *count = given; // SLICE!
    return *count - 1; // SLICE!
}
static int idle(void *given) {
    return given == NULL; // NOSLICE
}
int main(int argc, char **argv) {
    (void)argv;
    thrd_t a, b;
    int number = argc; // SLICE!
    int result = 0;
    int ignored;
    thrd_create(&a, work, &number); // SLICE!
    thrd_create(&b, idle, NULL); // NOSLICE
    thrd_join(a, &result); // SLICE!
    thrd_join(b, &ignored); // NOSLICE
    return 100 / result; // FAIL
}
