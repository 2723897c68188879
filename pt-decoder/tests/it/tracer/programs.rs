//! Small real programs, each with a kind of control flow that a decoder can get
//! wrong. Those without a library begin at `_start` and are short enough to be
//! stepped in whole.

/// A program: name, compiler call, where tracing begins, source.
pub struct Program {
    pub name: &'static str,
    pub compiler: &'static [&'static str],
    pub from: &'static str,
    pub source: &'static str,
}

const GCC_O0: &[&str] = &[
    "gcc",
    "-O0",
    "-static",
    "-nostdlib",
    "-ffreestanding",
    "-fno-stack-protector",
    "-no-pie",
    "-g",
];
const GCC_O2: &[&str] = &[
    "gcc",
    "-O2",
    "-static",
    "-nostdlib",
    "-ffreestanding",
    "-fno-stack-protector",
    "-no-pie",
    "-g",
    "-fcf-protection=none",
];
const CLANG_O0: &[&str] = &[
    "clang-19",
    "-O0",
    "-static",
    "-nostdlib",
    "-ffreestanding",
    "-fno-stack-protector",
    "-no-pie",
    "-g",
];
const CLANG_O2: &[&str] = &[
    "clang-19",
    "-O2",
    "-static",
    "-nostdlib",
    "-ffreestanding",
    "-fno-stack-protector",
    "-no-pie",
    "-g",
];
const LIBC: &[&str] = &["gcc", "-O1", "-static", "-no-pie", "-g", "-pthread"];
const DYNAMIC: &[&str] = &["clang-19", "-O2", "-fPIE", "-pie", "-g"];

/// Entry and system calls for programs without a library.
macro_rules! bare {
    ($body:literal) => {
        concat!(
            "static long sys(long n, long a, long b, long c) { long r;\n",
            "  __asm__ volatile(\"syscall\" : \"=a\"(r) : \"a\"(n), \"D\"(a), \"S\"(b), \"d\"(c) : \"rcx\", \"r11\", \"memory\"); return r; }\n",
            "static int run(void);\n",
            "__attribute__((force_align_arg_pointer)) void _start(void) { sys(231, run() & 127, 0, 0); __builtin_unreachable(); }\n",
            $body
        )
    };
}

pub const PROGRAMS: &[Program] = &[
    Program {
        name: "loops",
        compiler: GCC_O0,
        from: "_start",
        source: bare!(
            "static int run(void) { int s = 0; for (int i = 0; i < 40; i++) for (int j = 0; j < i % 7; j++) if ((i ^ j) & 1) s += j; else s ^= i; return s; }"
        ),
    },
    Program {
        name: "loops-optimised",
        compiler: GCC_O2,
        from: "_start",
        source: bare!(
            "volatile int n = 60; static int run(void) { int s = 0; for (int i = 0; i < n; i++) { if (i * i % 5 == 1) s += i; if (s & 4) s -= 3; } return s; }"
        ),
    },
    Program {
        name: "recursion",
        compiler: GCC_O0,
        from: "_start",
        source: bare!(
            "static int fib(int n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); } static int run(void) { return fib(10); }"
        ),
    },
    Program {
        name: "deeper-than-the-return-stack",
        compiler: CLANG_O0,
        from: "_start",
        source: bare!(
            "static int down(int n) { return n == 0 ? 0 : 1 + down(n - 1); } static int run(void) { return down(200) + down(63) + down(64) + down(65); }"
        ),
    },
    Program {
        name: "indirect-calls",
        compiler: CLANG_O0,
        from: "_start",
        source: bare!(
            "static int a(int x) { return x + 1; } static int b(int x) { return x * 2; } static int c(int x) { return a(b(x)); }\n\
         static int (*volatile t[])(int) = { a, b, c }; static int run(void) { int s = 1; for (int i = 0; i < 50; i++) s = t[(s + i) % 3](s) & 1023; return s; }"
        ),
    },
    Program {
        name: "jump-table",
        compiler: GCC_O2,
        from: "_start",
        source: bare!(
            "volatile int n = 90; static int run(void) { int s = 0; for (int i = 0; i < n; i++) switch (i % 9) { case 0: s += 3; break; case 1: s ^= 5; case 2: s -= 1; break; case 3: s *= 3; break; case 4: s |= 8; break; case 5: s &= 255; break; case 6: s += i; break; default: s ^= i; } return s; }"
        ),
    },
    Program {
        name: "state-machine",
        compiler: CLANG_O2,
        from: "_start",
        source: bare!(
            "volatile unsigned seed = 7; static int run(void) { static void *to[] = { &&a, &&b, &&c, &&d }; unsigned s = seed; int n = 0;\n\
         a: if (++n > 120) return n; s = s * 1103515245 + 12345; goto *to[s >> 30]; b: s = s * 69069 + 1; n++; goto *to[(s >> 28) & 3]; c: s = s * 69069 + 3; n += 2; goto *to[(s >> 29) & 3]; d: s -= n; goto a; }"
        ),
    },
    Program {
        name: "tail-calls",
        compiler: CLANG_O2,
        from: "_start",
        source: bare!(
            "__attribute__((noinline)) static int odd(int n); __attribute__((noinline)) static int even(int n) { if (n == 0) return 1; __attribute__((musttail)) return odd(n - 1); }\n\
         __attribute__((noinline)) static int odd(int n) { if (n == 0) return 0; __attribute__((musttail)) return even(n - 1); }\n\
         static int (*volatile f)(int) = even; static int run(void) { return f(31) + f(40) + odd(9); }"
        ),
    },
    Program {
        name: "inlined",
        compiler: CLANG_O2,
        from: "_start",
        source: bare!(
            "static inline __attribute__((always_inline)) int step(int x) { return x & 1 ? 3 * x + 1 : x / 2; }\n\
         __attribute__((noinline)) static int collatz(int x) { int n = 0; while (x != 1) { x = step(x); n++; } return n; } static int run(void) { int s = 0; for (int i = 1; i < 12; i++) s += collatz(i); return s; }"
        ),
    },
    Program {
        name: "system-calls",
        compiler: GCC_O0,
        from: "_start",
        source: bare!(
            "static int run(void) { long s = 0; for (int i = 0; i < 25; i++) { s += sys(39, 0, 0, 0) & 1; if (i % 3 == 0) s += sys(186, 0, 0, 0) & 3; } return (int)s; }"
        ),
    },
    Program {
        name: "repeated-instructions",
        compiler: GCC_O0,
        from: "_start",
        source: bare!(
            "static char from[300], to[300]; static int run(void) { for (int i = 0; i < 4; i++) { void *d = to, *s = from; long n = 50 * i; __asm__ volatile(\"rep movsb\" : \"+D\"(d), \"+S\"(s), \"+c\"(n) :: \"memory\"); }\n\
         long n = 9, k = 0; __asm__ volatile(\"1: inc %1; loop 1b\" : \"+c\"(n), \"+r\"(k)); __asm__ volatile(\"xor %%ecx, %%ecx; jrcxz 1f; inc %0; 1:\" : \"+r\"(k) :: \"rcx\"); return k; }"
        ),
    },
    Program {
        name: "returns-of-their-own",
        compiler: GCC_O0,
        from: "_start",
        source: bare!(
            "long there(long); __asm__(\"there: call 1f; 1: pop %rax; lea 2f(%rip), %rcx; push %rcx; ret; nop; 2: call 3f; lea 4f(%rip), %rcx; push %rcx; ret; ud2; 4: ret; 3: pop %rdx; push %rdx; ret\");\n\
         static int run(void) { int s = 0; for (int i = 0; i < 20; i++) { s += there(i) & 1; } return s; }"
        ),
    },
    Program {
        name: "sorting-with-callbacks",
        compiler: GCC_O0,
        from: "_start",
        source: bare!(
            "static int less(int a, int b) { return a < b; } static int more(int a, int b) { return a > b; }\n\
         static void sort(int *v, int n, int (*before)(int, int)) { for (int i = 1; i < n; i++) for (int j = i; j > 0 && before(v[j], v[j - 1]); j--) { int t = v[j]; v[j] = v[j - 1]; v[j - 1] = t; } }\n\
         static int run(void) { int v[14]; for (int i = 0; i < 14; i++) v[i] = i * 7919 % 31; sort(v, 14, less); sort(v, 14, more); return v[0]; }"
        ),
    },
    Program {
        name: "signals",
        compiler: LIBC,
        from: "main",
        source: "#include <signal.h>\n#include <setjmp.h>\n#include <unistd.h>\n\
         static volatile int n; static sigjmp_buf back; static void count(int s) { n += s; } static void escape(int s) { siglongjmp(back, s); }\n\
         int main(void) { signal(SIGUSR1, count); signal(SIGSEGV, escape); for (int i = 0; i < 4; i++) kill(getpid(), SIGUSR1);\n\
         if (sigsetjmp(back, 1) == 0) *(volatile int *)8 = 1; else n++; volatile int z = 0; signal(SIGFPE, escape); if (sigsetjmp(back, 1) == 0) n = 5 / z; else n++; _exit(n & 127); }",
    },
    Program {
        name: "library",
        compiler: DYNAMIC,
        from: "main",
        source: "#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n#include <time.h>\n#include <unistd.h>\n\
         static int order(const void *a, const void *b) { return *(const int *)a - *(const int *)b; }\n\
         int main(void) { int v[20]; char text[64]; struct timespec t; for (int i = 0; i < 20; i++) v[i] = i * 37 % 23; qsort(v, 20, sizeof *v, order); clock_gettime(CLOCK_MONOTONIC, &t);\n\
         snprintf(text, sizeof text, \"%d %s %ld\", v[3], \"words\", strlen(\"abc\")); char *copy = strdup(text); int n = strcmp(copy, text) + v[5]; free(copy); _exit(n & 127); }",
    },
];

/// Three threads that wait for each other.
pub const THREADS: Program = Program {
    name: "threads",
    compiler: LIBC,
    from: "main",
    source: "#include <pthread.h>\n#include <unistd.h>\n\
         static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; static volatile int shared;\n\
         static void *work(void *argument) { int n = (int)(long)argument; for (int i = 0; i < 12; i++) { pthread_mutex_lock(&lock); if ((shared + i) % n) shared += n; else shared ^= i; pthread_mutex_unlock(&lock); } return 0; }\n\
         int main(void) { pthread_t a, b; pthread_create(&a, 0, work, (void *)2); pthread_create(&b, 0, work, (void *)3); work((void *)5); pthread_join(a, 0); pthread_join(b, 0); _exit(shared & 127); }",
};
