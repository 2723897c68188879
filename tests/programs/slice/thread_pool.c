// A pool: tasks are functions with an argument, taken from a list by workers.
#include <pthread.h>
#include <stdlib.h>
struct task { void (*run)(void *); void *with; struct task *next; };
static struct task *tasks;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int rest;
static int done;
static void divide(void *given) {
    rest = 100 / *(int *)given; // FAIL TRACK
}
static void submit(void (*run)(void *), void *with) {
    struct task *task = malloc(sizeof *task); // SLICE!
    task->run = run; // SLICE!
    task->with = with; // SLICE! TRACK
    pthread_mutex_lock(&lock); // NOSLICE TRACK
    task->next = tasks; // SLICE!
    tasks = task; // SLICE!
    pthread_mutex_unlock(&lock); // NOSLICE TRACK
}
static void *worker(void *unused) {
    pthread_mutex_lock(&lock); // NOSLICE TRACK
    struct task *task = tasks; // SLICE!
    tasks = task->next; // SLICE!
    pthread_mutex_unlock(&lock); // NOSLICE TRACK
    task->run(task->with); // SLICE! TRACK
    done++; // NOSLICE NOTRACK
    return NULL;
}
int main(int argc, char **argv) {
    (void)argv;
    pthread_t a;
    int number = argc - 1; // SLICE! NOTRACK
    pthread_create(&a, NULL, worker, NULL); // SLICE!
    submit(divide, &number); // SLICE!
    pthread_join(a, NULL); // NOSLICE TRACK
    return rest; // NOSLICE NOTRACK
}
