// A failed assertion: the condition behind it, and what made it false.
#include <assert.h>
static int balance;
static int visits;
static void withdraw(int sum) {
    balance -= sum; // SLICE!
    visits++; // NOSLICE
}
int main(int argc, char **argv) {
    (void)argv;
    withdraw(argc); // SLICE!
    assert(balance >= 0); // FAIL
    return visits;
}
