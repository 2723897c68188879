// Watches a word of memory that is then given back, as its first argument says.
#include "hooks.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

static void store(volatile long *at, long value) {
    __asm__ volatile("movq %%rax, (%%rdi)" : : "a"(value), "D"(at) : "memory");
}
static long *watched(long *block) {
    __failsketch_arm(0, (uint64_t)&block[2], 8);
    store(&block[2], 1);
    store(&block[2], 2);
    return block;
}
// What another object does where the first one was, unseen until it is watched.
static void next_object(long *block) {
    for (int i = 0; i < 5; i++) store(&block[2], 100 + i);
    __failsketch_arm(0, (uint64_t)&block[2], 8);
    store(&block[2], 3);
}
static void *freeing_thread(void *block) {
    free(block);
    return 0;
}

int main(int argc, char **argv) {
    const char *how = argc > 1 ? argv[1] : "";
    // Volatile: the compiler must not do without those on either side.
    long *volatile before = malloc(64), *block = malloc(64), *volatile after = malloc(64);
    if (!strcmp(how, "free")) {
        watched(block);
        free(block);
        long *again = malloc(64);
        if (again != block) return 60;
        next_object(again);
    }
    if (!strcmp(how, "free-in-thread")) {
        pthread_t thread;
        pthread_create(&thread, 0, freeing_thread, 0);
        pthread_join(thread, 0);
        watched(block);
        pthread_create(&thread, 0, freeing_thread, block);
        pthread_join(thread, 0);
        next_object(block);
    }
    if (!strcmp(how, "realloc")) {
        watched(block);
        long *moved = realloc(block, 1 << 16);
        if (moved == block || moved[2] != 2) return 61;
        next_object(moved);
    }
    if (!strcmp(how, "munmap")) {
        int protection = PROT_READ | PROT_WRITE, flags = MAP_PRIVATE | MAP_ANONYMOUS;
        char *pages = mmap(0, 8192, protection, flags, -1, 0);
        watched((long *)(pages + 4096));
        munmap(pages, 8192);
        if (mmap(pages, 8192, protection, flags | MAP_FIXED, -1, 0) != pages) return 62;
        next_object((long *)(pages + 4096));
    }
    if (!strcmp(how, "neighbours")) {
        // Others come and go all around it.
        watched(block);
        free(before);
        free(after);
        for (int i = 0; i < 1000; i++) free(malloc(i));
        store(&block[2], 3);
    }
    return 0;
}
