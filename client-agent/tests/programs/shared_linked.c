// A library that a program is linked with. It calls the program back, also before main
// and after exit, and does before main what the program's first argument names.
#include "hooks.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

void host_event(unsigned site);

static const char *value(const char *name) {
    const char *found = getenv(name);
    return found ? found : "unset";
}
__attribute__((noinline)) static int linked_faults(volatile int *at) { return *at; }

__attribute__((constructor)) static void before_main(int argc, char **argv) {
    const char *how = argc > 1 ? argv[1] : "";
    host_event(NUMBER);
    __failsketch_call(60);
    // Nothing of what was prepared for the run may be seen, nor inherited.
    dprintf(1, "%s, %s\n", value("LD_PRELOAD"), value("FAILSKETCH_FD"));
    if (!strcmp(how, "early-child") && !fork()) {
        char *child[] = {"/bin/sh", "-c", "exit 0", 0};
        execv(child[0], child);
        _exit(93);
    }
    if (!strcmp(how, "early-child")) wait(0);
    if (!strncmp(how, "early-", 6)) linked_faults((void *)40);
}
__attribute__((destructor)) static void after_exit(void) { host_event(NUMBER + 5); }
