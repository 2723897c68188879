// A service that sleeps after each request, with a location of its own watched: says in
// the end how many perf events it still has open, and how many of its own files are gone.
#define _GNU_SOURCE
#include "hooks.h"
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static volatile long served __attribute__((aligned(8)));

// Calls `each` with every descriptor that is a perf event.
static int events(void (*each)(int)) {
    int found = 0;
    DIR *folder = opendir("/proc/self/fd");
    for (struct dirent *entry; folder && (entry = readdir(folder));) {
        char name[64], target[64] = "";
        snprintf(name, sizeof name, "/proc/self/fd/%.20s", entry->d_name);
        if (readlink(name, target, sizeof target - 1) > 0 && strstr(target, "[perf_event]")) {
            found++;
            if (each) each(atoi(entry->d_name));
        }
    }
    if (folder) closedir(folder);
    return found;
}

// Closes a descriptor that the program does not know, and uses its number.
static int null, own[512], owned;
static void take(int number) {
    if (owned < 512 && dup2(null, number) == number) own[owned++] = number;
}

int main(int argc, char **argv) {
    null = open("/dev/null", O_RDONLY);
    volatile long local = 0;
    __failsketch_arm(1, (uint64_t)&local, 8);
    local = 1;
    __failsketch_arm(0, (uint64_t)&served, 8);
    served = 1;
    const char *how = argc > 2 ? argv[2] : "";
    if (!strcmp(how, "takes-numbers")) events(take);
    for (long i = atol(argv[1]); i > 0; i--) {
        usleep(1);
        if (!strcmp(how, "records-only"))
            for (int n = 0; n < 20; n++) __failsketch_access(n, 8, 0x1000, i, 1, 2);
        else
            __failsketch_arm(0, (uint64_t)&served, 8);
    }
    served = 2;
    int gone = 0;
    for (int i = 0; i < owned; i++) gone += fcntl(own[i], F_GETFD) < 0;
    printf("%d %d %d\n", events(0), owned, gone);
    return 7;
}
