// A program between shared objects: two that it is linked with (shared_linked.c) call it
// back before main and after exit, and one that it opens (shared_plugin.c) does what the
// first argument names. Hooks are called by hand; each call of the hooked function also
// says so, which is the truth that records are held against.
#include "hooks.h"
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#define FUNCTION __attribute__((noinline))

static volatile long watched __attribute__((aligned(8)));
static void *plugin;

// Called from everywhere, through its name and through pointers.
void host_event(unsigned site) {
    dprintf(1, "%d %u\n", gettid(), site);
    __failsketch_call(site);
}
FUNCTION static int host_enters(int (*inner)(volatile int *), volatile int *at) {
    host_event(30);
    return inner(at) + 1;
}
FUNCTION static int host_faults(volatile int *at) { return *at; }
static void *named(const char *name) {
    void *found = dlsym(plugin, name);
    if (!found) exit(90);
    return found;
}
static void opens(const char *file) {
    plugin = dlopen(file, RTLD_NOW | RTLD_LOCAL);
    if (!plugin) {
        fprintf(stderr, "%s\n", dlerror());
        exit(91);
    }
}
// Says whether the object is really gone.
static void closes(const char *file) {
    dlclose(plugin);
    dprintf(1, "%s\n", dlopen(file, RTLD_NOW | RTLD_NOLOAD) ? "still here" : "gone");
}

int main(int argc, char **argv) {
    const char *how = argc > 2 ? argv[1] : "";
    host_event(20);
    if (!strcmp(how, "exec")) {
        char *second[] = {argv[2], "crash", argv[3], 0};
        execv(argv[2], second);
        return 92;
    }
    if (argc > 2) opens(argv[2]);
    if (!strcmp(how, "callbacks")) {
        ((void (*)(void (*)(unsigned)))named("plugin_calls"))(host_event);
        closes(argv[2]);
    }
    if (!strcmp(how, "threads")) {
        ((void (*)(void))named("plugin_threads"))();
        closes(argv[2]);
        host_event(21);
    }
    if (!strcmp(how, "crash-deleted")) unlink(argv[2]);
    if (!strncmp(how, "crash", 5)) return host_enters(named("plugin_faults"), (void *)24);
    if (!strcmp(how, "watch")) {
        __failsketch_arm(0, (uint64_t)&watched, 8);
        ((void (*)(volatile long *, long))named("plugin_writes"))(&watched, 7);
        closes(argv[2]);
        watched = 8;
        dprintf(1, "%ld\n", watched);
    }
    if (!strncmp(how, "handler", 7)) {
        // With a handler that goes with its object, or stays when its object is gone.
        ((void (*)(int))named("plugin_survives"))(!strcmp(how, "handler-stays"));
        closes(argv[2]);
        return host_faults((void *)32);
    }
    host_event(22);
    return 5;
}
