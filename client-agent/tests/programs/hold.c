// Takes all the memory that this user may lock for perf rings, and holds it until its
// input ends. Argument: the user.
#include <linux/perf_event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

int main(int argc, char **argv) {
    struct rlimit none = {0, 0};
    struct perf_event_attr attr;
    if (argc < 2 || setresuid(atoi(argv[1]), atoi(argv[1]), atoi(argv[1]))) return 2;
    setrlimit(RLIMIT_MEMLOCK, &none);
    memset(&attr, 0, sizeof attr);
    attr.type = PERF_TYPE_SOFTWARE;
    attr.size = sizeof attr;
    attr.config = PERF_COUNT_SW_DUMMY;
    attr.exclude_kernel = attr.exclude_hv = 1;
    for (int pages = 64; pages; pages /= 2)
        for (;;) {
            int event = syscall(SYS_perf_event_open, &attr, 0, -1, -1, 0);
            if (event < 0) return 3;
            if (mmap(0, (pages + 1) * 4096, PROT_READ | PROT_WRITE, MAP_SHARED, event, 0) == MAP_FAILED) {
                close(event);
                break;
            }
        }
    puts("held");
    fflush(stdout);
    return getchar() == EOF ? 0 : 1;
}
