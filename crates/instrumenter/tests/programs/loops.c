// Branches of every kind that optimisers copy, invert, thread and unroll. Each
// stands on a line of its own: `//? a b` says that it leads to the line labelled
// `//: a` if its condition holds, else to `//: b`.
static int volatile sink;
static int table[64];

static int sum(const int *v, int n)
{
    int s = 0;
    for (int i = 0; i < n; i++) //? sum_body sum_done
        s += v[i]; //: sum_body
    return s; //: sum_done
}

static int find(const int *v, int n, int what)
{
    int at = 0;
    while (at < n) { //? find_body find_not
        if (v[at] == what) //? find_yes find_next
            return at; //: find_yes
        at++; //: find_next
    }
    return -1; //: find_not
}

static int gcd(int a, int b)
{
    do {
        int t = a % b; //: gcd_again
        a = b;
        b = t;
    } while (b != 0); //? gcd_again gcd_done
    return a; //: gcd_done
}

static int constant_trips(int seed)
{
    int s = seed;
    for (int i = 0; i < 12; i++) //? trips_body trips_done
        s = s * 3 + (s >> 5); //: trips_body
    return s; //: trips_done
}

static int threaded(int x, int y)
{
    int state = x;
    if (y > 2) //? threaded_zero threaded_test
        state = 0; //: threaded_zero
    if (state) //: threaded_test //? threaded_call threaded_end
        sink = sum(table, y & 7); //: threaded_call
    return state + 1; //: threaded_end
}

static int nested(int rows, int columns)
{
    int s = 0;
    for (int r = 0; r < rows; r++) { //? nested_row nested_done
        for (int c = 0; c < columns; c++) { //? nested_cell nested_end_of_row
            if ((r ^ c) & 1) //? nested_odd nested_next
                s += table[(r * columns + c) & 63]; //: nested_odd
            sink = s; //: nested_next
        }
        s ^= r; //: nested_end_of_row
    }
    return s; //: nested_done
}

static unsigned collatz(unsigned n)
{
    unsigned steps = 0;
    while (n != 1) { //? collatz_step collatz_done
        if (n & 1) //? collatz_odd collatz_even
            n = 3 * n + 1; //: collatz_odd
        else
            n /= 2; //: collatz_even
        steps++;
    }
    return steps; //: collatz_done
}

static int string_length(const char *s)
{
    int n = 0;
    while (s[n]) //? length_more length_done
        n++; //: length_more
    return n; //: length_done
}

static int sorted(int *v, int n)
{
    int swaps = 0;
    for (int i = 1; i < n; i++) { //? sorted_take sorted_done
        int j = i; //: sorted_take
        while (j > 0) { //? sorted_compare sorted_placed
            if (v[j - 1] <= v[j]) //? sorted_stop sorted_swap
                break; //: sorted_stop
            int t = v[j]; //: sorted_swap
            v[j] = v[j - 1];
            v[j - 1] = t;
            swaps++;
            j--;
        }
        sink = j; //: sorted_placed
    }
    return swaps; //: sorted_done
}

static int early(int a, int b)
{
    if (a < 0) //? early_out early_on
        return b; //: early_out
    sink = a; //: early_on
    if (b < a) //? early_less early_more
        sink = b; //: early_less
    else
        sink = a + b; //: early_more
    return a - b;
}

static int unswitched(const int *v, int n, int flag)
{
    int s = 0;
    for (int i = 0; i < n; i++) { //? unswitched_look unswitched_done
        if (v[i] > 1000) //? unswitched_skip unswitched_test
            continue; //: unswitched_skip
        if (flag) //: unswitched_test //? unswitched_yes unswitched_no
            sink = v[i]; //: unswitched_yes
        else
            s += v[i] ^ i; //: unswitched_no
    }
    return s; //: unswitched_done
}

static int state_machine(const char *s)
{
    int state = 0, words = 0;
    for (; *s; s++) { //? machine_step machine_done
        if (*s == ' ') { //? machine_blank machine_letter
            state = 0; //: machine_blank
        } else {
            if (state == 0) //: machine_letter //? machine_new machine_same
                words++; //: machine_new
            state = 1; //: machine_same
        }
    }
    return words; //: machine_done
}

int main(int argc, char **argv)
{
    int seed = argc * 7;
    for (int i = 0; i < 64; i++) { //? main_fill main_filled
        seed = seed * 1103515245 + 12345; //: main_fill
        table[i] = (seed >> 16) & 0xff;
    }
    int r = sum(table, 20); //: main_filled
    r += find(table, 64, table[37]);
    r += find(table, 9, 1000);
    r += gcd(84, 36 + argc);
    r += constant_trips(argc);
    r += threaded(argc, 1);
    r += threaded(argc, 3);
    r += threaded(0, 0);
    r += nested(5, 6);
    r += nested(0, 6);
    r += collatz(27);
    r += string_length(argv[1] + string_length(argv[1]));
    r += string_length("a rather short string");
    r += sorted(table, 24);
    r += early(-1, r);
    r += early(argc, 9);
    r += early(argc + 20, 9);
    r += unswitched(table, 30, argc > 1);
    r += unswitched(table, 30, argc > 2);
    for (int i = 0; i < 10; i++) //? main_large main_again
        table[i] += 2000; //: main_large
    r += unswitched(table, 10, argc > 1); //: main_again
    r += state_machine("one two  three ");
    return r & 0x7f;
}
