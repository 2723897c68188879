/* Threads that come and go, each with its own variables, and a fork. */
#include <pthread.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static long total;
static __thread long mine = 7;

static void add(long amount)
{
    pthread_mutex_lock(&lock);
    total += amount;
    pthread_mutex_unlock(&lock);
}

static void *work(void *argument)
{
    for (int i = 0; i < 100; i++)
        mine += (long)argument;
    add(mine);
    return 0;
}

int main(void)
{
    for (int round = 0; round < 3; round++) {
        pthread_t threads[8];
        for (long i = 0; i < 8; i++)
            pthread_create(&threads[i], 0, work, (void *)i);
        for (int i = 0; i < 8; i++)
            pthread_join(threads[i], 0);
    }
    int status = 0;
    pid_t child = fork();
    if (child == 0) {
        work((void *)2);
        _exit(total % 100);
    }
    waitpid(child, &status, 0);
    printf("%ld %ld %d\n", total, mine, WEXITSTATUS(status));
    return 0;
}
