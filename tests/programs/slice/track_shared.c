// Shared memory, branches and synchronisation are tracked; stack slots never.
#include <pthread.h>
#include <stdlib.h>
struct account { int balance; int visits; };
static int rest;
static void *spend(void *given) {
    struct account *account = given; // SLICE! NOTRACK
    int left = account->balance; // SLICE! TRACK
    if (left > 100) // SLICE! TRACK
        return NULL;
    rest = 10 / left; // FAIL TRACK
    account->visits++; // NOSLICE NOTRACK
    return NULL;
}
int main(int argc, char **argv) {
    (void)argv;
    pthread_t a;
    int start = argc; // SLICE! NOTRACK
    struct account *account = malloc(sizeof *account); // SLICE!
    account->balance = start - 1; // SLICE! TRACK
    pthread_create(&a, NULL, spend, account); // SLICE! TRACK
    pthread_join(a, NULL); // NOSLICE NOTRACK
    return rest; // NOSLICE
}
