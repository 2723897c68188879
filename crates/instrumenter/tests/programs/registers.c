/* Keeps as much in registers as fits, general and vector ones, around hooked accesses. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define N 257
static double a[N], b[N];
static float f[N];
static unsigned long u[N];
static unsigned char bytes[N];

__attribute__((noinline)) static double mixed(int rounds)
{
    double s0 = 0, s1 = 1, s2 = 2, s3 = 3, s4 = 4, s5 = 5;
    unsigned long h0 = 1, h1 = 2, h2 = 3, h3 = 4, h4 = 5, h5 = 6;
    for (int r = 0; r < rounds; r++)
        for (int i = 0; i < N; i++) {
            double x = a[i], y = b[(i * 7 + r) % N];
            s0 += x * y;
            s1 = s1 * 0.5 + x;
            s2 += y - x;
            s3 = s3 * 0.25 + s2;
            s4 += f[i];
            s5 = s5 * 0.125 + s4;
            unsigned long v = u[i];
            h0 = h0 * 31 + v;
            h1 ^= h0 >> 7;
            h2 += bytes[(h1 ^ i) % N];
            h3 = (h3 << 5 | h3 >> 59) ^ h2;
            h4 += h3 * 17;
            h5 ^= h4 + v;
            if ((v & 1) == (h5 & 1))
                u[i] = v * 3 + 1;
            else
                b[i] = y + 1.0 / (1 + i);
            bytes[i] = (unsigned char)h5;
        }
    printf("%lx %lx %lx %lx %lx %lx\n", h0, h1, h2, h3, h4, h5);
    return s0 + s1 + s2 + s3 + s4 + s5;
}

int main(int argc, char **argv)
{
    (void)argv;
    for (int i = 0; i < N; i++) {
        a[i] = i * 0.37;
        b[i] = 100.0 - i;
        f[i] = i / 3.0f;
        u[i] = i * 2654435761u;
        bytes[i] = i * 5;
    }
    printf("%.17g\n", mixed(argc > 1 ? 40 : 20));
    return 0;
}
