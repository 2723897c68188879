// C11: thrd_create hands the argument over.
#include <threads.h>
#include <stddef.h>
static int rest;
static int work(void *given) {
    int *count = given; // SLICE!
    rest = 100 / *count; // FAIL
    return 0;
}
static int idle(void *given) {
    rest = given != NULL; // NOSLICE
    return 0;
}
int main(int argc, char **argv) {
    (void)argv;
    thrd_t a, b;
    int number = argc - 1; // SLICE!
    int other = argc; // NOSLICE
    thrd_create(&a, work, &number); // SLICE!
    thrd_create(&b, idle, &other); // NOSLICE
    thrd_join(a, NULL); // NOSLICE
    return 0;
}
