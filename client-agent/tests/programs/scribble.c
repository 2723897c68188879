// Writes random bytes over the memory that it shares with the agent, then ends as told:
//   scribble SEED BLOWS HOW [CODE]
// Found as any wild pointer would find it: among the mappings. Prints how many there are,
// and whether its hooks are real; alone it finds none and ends the same way.
#define _GNU_SOURCE
#include "hooks.h"
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct { unsigned char *at; size_t size; } found[8];
static int count;

static void find(void) {
    FILE *maps = fopen("/proc/self/maps", "r");
    char line[4096];
    while (fgets(line, sizeof line, maps)) {
        unsigned long from, to;
        char rights[5];
        if (!strstr(line, "/memfd:failsketch-region")) continue;
        if (sscanf(line, "%lx-%lx %4s", &from, &to, rights) == 3 && rights[1] == 'w' && count < 8) {
            found[count].at = (unsigned char *)from;
            found[count++].size = to - from;
        }
    }
    fclose(maps);
}

static uint64_t next(uint64_t *state) {
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    return *state * 0x2545f4914f6cdd1dull;
}

static uint64_t any_word(uint64_t *random) {
    static const uint64_t extremes[] = {0, 1, -1, -8, 1ull << 63, ~(1ull << 63), 0xffffffff};
    uint64_t word = next(random);
    return word % 2 ? next(random) : extremes[word / 2 % 7];
}

static void blow(uint64_t *random) {
    if (!count) return;
    int which = next(random) % count;
    size_t size = found[which].size;
    // As likely within the first hundred bytes as within the first million.
    size_t within = (size_t)64 << next(random) % 19;
    size_t at = next(random) % (within < size ? within : size);
    if (next(random) % 4 == 0 && size > SLOTS_AT)
        at = SLOTS_AT + next(random) % SLOTS * SLOT_SIZE + next(random) % 256;
    size_t length = next(random) % 8 ? 8 : next(random) % 65536;
    at &= ~(size_t)7;
    for (size_t i = 0; i < length && at + i + 8 <= size; i += 8)
        *(volatile uint64_t *)(found[which].at + at + i) = any_word(random);
}

static volatile long shared;
static void some_hooks(uint64_t *random) {
    __failsketch_access(next(random) % 64, 8, (uint64_t)&shared, shared, 10, 20);
    __failsketch_branch(next(random) % 64, next(random) % 3);
    __failsketch_arm(next(random) % 4, (uint64_t)&shared, 8);
    shared++;
}

static void *for_ever(void *seed) {
    uint64_t random = (uint64_t)seed;
    for (;;) blow(&random);
}
static void *hooked(void *seed) {
    uint64_t random = (uint64_t)seed;
    for (int i = 0; i < 50; i++) some_hooks(&random);
    return 0;
}
static void *leaves(void *code) { exit((int)(long)code); }

int main(int argc, char **argv) {
    uint64_t random = strtoull(argv[1], 0, 10) * 2 + 1;
    int blows = atoi(argv[2]);
    const char *how = argv[3];
    find();
#ifdef STUBS
    printf("%d untouched\n", count);
#else
    printf("%d tracked\n", count);
#endif
    fflush(stdout);
    for (int i = 0; i < blows; i++) {
        some_hooks(&random);
        blow(&random);
        if (i % 16 == 0) {
            pthread_t thread;
            pthread_create(&thread, 0, hooked, (void *)next(&random));
            pthread_join(thread, 0);
        }
        // So that the agent looks in between, now and then.
        if (next(&random) % 256 == 0) usleep(12000);
    }
    if (blows % 2) {
        // One that goes on while the program ends.
        pthread_t thread;
        pthread_create(&thread, 0, for_ever, (void *)next(&random));
    }
    if (!strcmp(how, "exit")) return atoi(argv[4]);
    if (!strcmp(how, "leave")) _exit(atoi(argv[4]));
    if (!strcmp(how, "thread")) {
        pthread_t thread;
        pthread_create(&thread, 0, leaves, (void *)atol(argv[4]));
        pthread_join(thread, 0);
    }
    if (!strcmp(how, "raise")) raise(atoi(argv[4]));
    if (!strcmp(how, "abort")) abort();
    if (!strcmp(how, "null")) *(volatile int *)8 = 1;
    if (!strcmp(how, "divide")) { volatile int zero = 0; return 1 / zero; }
    if (!strcmp(how, "illegal")) __builtin_trap();
    return 99;
}
