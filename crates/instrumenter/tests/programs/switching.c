/* Loops that last as long as the program: each `x` on the input is one round, and
   is answered; `s` hands the rest of the input to a thread. */
#include <pthread.h>
#include <unistd.h>

static long rounds, others;

static void *worker(void *argument)
{
    char c;
    while (read(0, &c, 1) == 1) {
        if (c == 'x')
            rounds++;
        else
            others++;
        write(1, "w", 1);
    }
    return argument;
}

int main(void)
{
    char c;
    pthread_t thread;
    while (read(0, &c, 1) == 1) {
        if (c == 's') {
            pthread_create(&thread, 0, worker, 0);
            pthread_join(thread, 0);
            return rounds > 1000;
        }
        rounds++;
        write(1, "m", 1);
    }
    return others > 1000;
}
