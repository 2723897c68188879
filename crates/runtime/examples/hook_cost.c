// Nanoseconds per hook, in rounds that take turns, so that a busy machine hits all
// alike. Prints JSON: for each kind the median and the quartiles of the rounds.
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

extern void __failsketch_access(uint32_t, uint32_t, uint64_t, uint64_t, uint64_t, uint64_t);
extern void __failsketch_branch(uint32_t, uint32_t);
extern void __failsketch_sync_begin(uint32_t, uint64_t);
extern volatile uint32_t __failsketch_enabled, __failsketch_active;

#define ROUNDS 101
#define CALLS 2000
static volatile long word;
static double ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC_RAW, &t);
    return t.tv_sec * 1e9 + t.tv_nsec;
}
// As the instrumenter reads the counter around an access.
static inline uint64_t before(void) {
    uint64_t low, high;
    __asm__ volatile("lfence\n\t.byte 0x3e\n\trdtsc" : "=a"(low), "=d"(high) : : "memory");
    return high << 32 | low;
}
static inline uint64_t after_store(void) {
    uint64_t low, high;
    __asm__ volatile("mfence\n\tlfence\n\t.byte 0x3e\n\trdtsc" : "=a"(low), "=d"(high) : : "memory");
    return high << 32 | low;
}
__attribute__((noinline)) static void nothing(uint32_t a, uint32_t b) { __asm__ volatile("" : : "r"(a), "r"(b)); }
__attribute__((noinline)) static void entry(void) {
    // What the entry of a tracked function asks.
    if (__failsketch_enabled && __failsketch_active) word++;
    __asm__ volatile("" : : : "memory");
}
__attribute__((noinline)) static void no_entry(void) { __asm__ volatile("" : : : "memory"); }

static void call(int i) { nothing(1, i); }
static void empty_function(int i) { no_entry(); }
static void function_with_flag(int i) { entry(); }
static void hot_branch(int i) { __failsketch_branch(200, 0); }
static void synchronisation(int i) { __failsketch_sync_begin(3, 64); }
static void record_only(int i) { __failsketch_access(4, 8, (uint64_t)&word, i, i, i); }
static void plain_load(int i) { (void)word; }
static void load(int i) { uint64_t b = before(); long v = word; __failsketch_access(4, 8, (uint64_t)&word, v, b, before()); }
// What the instrumenter puts around an access and in front of a branch
// (`crates/instrumenter/src/hooks/kept.rs`), for operands in fixed registers.
#define TIRED(place) "cmpl %%r10d, __failsketch_tired+" place "(%%rip)\n\tje 9f\n\t"
#define THREAD "movq __failsketch_thread(%%rip), %%r10\n\tmovl %%fs:(%%r10), %%r10d\n\t"
#define CLOBBERS "r11", "memory", "cc"
static inline uint64_t kept_clock(void) {
    register uint64_t r10 __asm__("r10");
    __asm__ volatile(THREAD TIRED("32*6") TIRED("32*6+4") "movl $6, %%r10d\n\tcall __failsketch_kept_clock\n9:"
                     : "=r"(r10) : : CLOBBERS);
    return r10;
}
#define KEPT_ACCESS(thunk)                                                                                     \
    __asm__ volatile("testq %%r10, %%r10\n\tjs 4f\n\ttestq %%rax, %%rax\n\tje 2f\n\tjs 3f\n\t"                \
                     TIRED("32*6+8") TIRED("32*6+12") "movl $1, %%r10d\n\tjmp 4f\n"                           \
                     "2:" TIRED("32*6+16") TIRED("32*6+20") "movl $2, %%r10d\n\tjmp 4f\n"                     \
                     "3:" TIRED("32*6+24") TIRED("32*6+28") "movl $3, %%r10d\n\tjmp 4f\n"                     \
                     "4:movabsq $(6+(8<<32)+(1<<48)+(1<<60)), %%r11\n\tcall __failsketch_kept_" thunk "\n9:" \
                     : "+r"(r10) : "c"(&word), "a"(value) : CLOBBERS)
static void tired_load(int i) {
    register uint64_t r10 __asm__("r10") = kept_clock();
    long value = word;
    KEPT_ACCESS("read");
}
static void tired_store(int i) {
    register uint64_t r10 __asm__("r10") = kept_clock();
    long value = i;
    word = value;
    KEPT_ACCESS("wrote");
}
static void tired_branch(int i) {
    __asm__ volatile(THREAD "leaq __failsketch_tired+32*7+8(%%rip), %%r11\n\t"
                     "cmpl %%r10d, (%%r11,%0,8)\n\tje 9f\n\tcmpl %%r10d, 4(%%r11,%0,8)\n\tje 9f\n\t"
                     "leal 1(%0), %%r10d\n\tmovl $7, %%r11d\n\tcall __failsketch_kept_branch\n9:"
                     : : "r"((uint64_t)(i & 1)) : "r10", CLOBBERS);
}
static void plain_store(int i) { word = i; }
static void store(int i) { uint64_t b = before(); word = i; __failsketch_access(5, 1u << 31 | 8, (uint64_t)&word, i, b, after_store()); }

static struct {
    const char *name;
    void (*run)(int);
    double of_round[ROUNDS];
} kinds[] = {
    {"call of an empty function", call}, {"call of an empty function, again", call},
    {"function without a flag", empty_function}, {"function with the flag at its entry", function_with_flag},
    {"branch hook in a hot loop, which only counts", hot_branch},
    {"hook at a point (branch, call, synchronisation)", synchronisation},
    {"access hook without clock readings", record_only},
    {"load without a hook", plain_load}, {"load with its hook", load},
    {"store without a hook", plain_store}, {"store with its hook", store},
    {"branch hook that its thread is tired of", tired_branch},
    {"load with a hook that its thread is tired of", tired_load},
    {"store with a hook that its thread is tired of", tired_store},
};
#define KINDS (sizeof kinds / sizeof *kinds)

static int compare(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

int main(void) {
    for (int i = 0; i < 100000; i++) {
        hot_branch(i);
        tired_branch(i);
        tired_load(i);
        tired_store(i);
    }
    for (int round = 0; round < ROUNDS; round++)
        for (unsigned kind = 0; kind < KINDS; kind++) {
            double from = ns();
            for (int i = 0; i < CALLS; i++) kinds[kind].run(i);
            kinds[kind].of_round[round] = (ns() - from) / CALLS;
        }
    printf("{\"enabled\": %s", __failsketch_enabled ? "true" : "false");
    for (unsigned kind = 0; kind < KINDS; kind++) {
        double *sorted = kinds[kind].of_round;
        qsort(sorted, ROUNDS, sizeof *sorted, compare);
        printf(", \"%s\": {\"median_ns\": %.2f, \"quartiles_ns\": [%.2f, %.2f]}", kinds[kind].name,
               sorted[ROUNDS / 2], sorted[ROUNDS / 4], sorted[3 * ROUNDS / 4]);
    }
    printf("}\n");
    return 0;
}
