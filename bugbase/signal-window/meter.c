/* A meter whose timer signal reads the current window while it is being replaced.
 *
 * The program adds samples to a window; when the window is full it is summed up,
 * freed and replaced by a new one. A timer's signal handler keeps the status line up
 * to date from the current window. If the signal comes between the removal of the
 * old window and the store of the new one, the handler follows a null pointer. The
 * fix blocks the signal meanwhile; -DFIXED builds it.
 *
 * One thread only: the handler interrupts the code that it races with.
 */
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>

#define WINDOW 2048
#define BINS 32

typedef struct {
    int used;
    uint32_t largest;
    uint32_t samples[WINDOW];
} window;

typedef struct {
    uint64_t count;
    uint64_t sum;
    uint32_t bins[BINS];
} totals;

static window *volatile current;
static volatile sig_atomic_t status_used;
static volatile uint32_t status_largest;
static volatile sig_atomic_t updates;
static uint64_t state;

static uint64_t next_random(void)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
}

static void on_timer(int number)
{
    (void)number;
    window *w = current;
    status_used = w->used;
    status_largest = w->largest;
    updates++;
}

static window *new_window(void)
{
    window *w = malloc(sizeof *w);
    memset(w, 0, sizeof *w);
    return w;
}

/* Sorts a full window's samples into the bins. */
static void sum_up(const window *w, totals *t)
{
    for (int i = 0; i < w->used; i++) {
        t->count++;
        t->sum += w->samples[i];
        t->bins[w->samples[i] % BINS]++;
    }
}

static void rotate(totals *t)
{
#ifdef FIXED
    sigset_t timer, before;
    sigemptyset(&timer);
    sigaddset(&timer, SIGALRM);
    sigprocmask(SIG_BLOCK, &timer, &before);
#endif
    window *full = current;
    current = NULL;
    sum_up(full, t);
    free(full);
    current = new_window();
#ifdef FIXED
    sigprocmask(SIG_SETMASK, &before, NULL);
#endif
}

/* A sample is measured: the sensor's raw values are smoothed. */
static uint32_t measure(void)
{
    uint64_t raw = next_random();
    uint32_t smooth = (uint32_t)raw;
    for (int i = 0; i < 60; i++)
        smooth = smooth * 1664525u + (uint32_t)(raw >> (i % 32));
    return smooth;
}

static void add_sample(uint32_t sample, totals *t)
{
    window *w = current;
    w->samples[w->used] = sample;
    if (sample > w->largest)
        w->largest = sample;
    w->used++;
    if (w->used == WINDOW)
        rotate(t);
}

static void start_timer(int microseconds)
{
    struct sigaction action;
    struct itimerval every;
    memset(&action, 0, sizeof action);
    action.sa_handler = on_timer;
    action.sa_flags = SA_RESTART;
    sigaction(SIGALRM, &action, NULL);
    memset(&every, 0, sizeof every);
    every.it_interval.tv_usec = microseconds;
    every.it_value.tv_usec = microseconds;
    setitimer(ITIMER_REAL, &every, NULL);
}

static void stop_timer(void)
{
    struct itimerval never;
    memset(&never, 0, sizeof never);
    setitimer(ITIMER_REAL, &never, NULL);
}

int main(int argc, char **argv)
{
    int samples = argc > 1 ? atoi(argv[1]) : 100000;
    int microseconds = argc > 2 ? atoi(argv[2]) : 1000;
    totals t;
    if (samples < 1 || microseconds < 1) {
        fprintf(stderr, "usage: meter [SAMPLES [MICROSECONDS]]\n");
        return 2;
    }
    memset(&t, 0, sizeof t);
    state = 0x94d049bb133111ebULL;
    current = new_window();
    start_timer(microseconds);
    for (int i = 0; i < samples; i++)
        add_sample(measure(), &t);
    stop_timer();
    sum_up(current, &t);
    free(current);
    printf("%llu samples, mean %llu, %d updates\n", (unsigned long long)t.count,
           (unsigned long long)(t.sum / t.count), (int)updates);
    return t.count == (uint64_t)samples ? 0 : 1;
}
