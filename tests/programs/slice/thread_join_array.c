// Many threads, their handles in an array; their results are summed.
#include <pthread.h>
#include <stdlib.h>
static void *work(void *given) {
    long part = (long)given - 1; // SLICE!
    return (void *)part; // SLICE!
}
static void *idle(void *given) {
    return given; // NOSLICE
}
int main(int argc, char **argv) {
    (void)argv;
    pthread_t threads[2];
    pthread_t other;
    long sum = 0; // SLICE!
    for (int i = 0; i < 2; i++)
        pthread_create(&threads[i], NULL, work, (void *)(long)argc); // SLICE!
    pthread_create(&other, NULL, idle, NULL); // NOSLICE
    for (int i = 0; i < 2; i++) {
        void *part;
        pthread_join(threads[i], &part); // SLICE!
        sum += (long)part; // SLICE!
    }
    return (int)(100 / sum); // FAIL
}
