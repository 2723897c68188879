//! P′ made of clones behaves as P does, with recording off and on.

mod common;

use common::{build, run};
use instrumenter::Way;

const C: &str = r#"
#include <stdio.h>
#include <string.h>
static int counter; static __thread int thread_local_count = 5; int shared = 3;
static const char *names[] = {"a", "bb", "ccc"};
__attribute__((noinline)) static int recursive(int n)
{
    counter++;
    thread_local_count++;
    return n < 2 ? 1 : recursive(n - 1) + recursive(n - 2);
}
__attribute__((noinline)) int choose(int k)
{
    static int calls;
    char b[16];
    calls++;
    memcpy(b, "hello world", 12);
    switch (k) {
    case 0: return recursive(5);
    case 1: puts("one"); return 3;
    case 2: printf("%s\n", names[k]); return 9;
    case 3: return shared * 7;
    case 4: return 77 + b[k & 15];
    }
    return (int)strlen(b) + k + calls;
}
int main(int argc, char **argv)
{
    int (*volatile pointer)(int) = choose;
    int sum = 0;
    for (int i = 0; i < 7; i++)
        sum += pointer(i);
    printf("%d %d %d %d\n", sum, counter, thread_local_count, pointer == choose);
    return argc + 40;
}
"#;

#[test]
fn first() {
    let program = build(&[("p.c", C)], &["-O2", "-fPIE"], &["-pie"]);
    let plan = program.plan(&["choose", "recursive"]);
    let tracked = instrumenter::track(&program.build, &plan).unwrap();
    assert_eq!(tracked.way, Way::Clones { functions: 2 });
    let p = program.write("p", &program.build.deployed().unwrap());
    let deployed = program.write("tracked", &tracked.deployed);
    program.write("tracked.full", &tracked.full);
    let expected = run(&p, &[], false);
    for recording in [false, true] {
        let got = run(&deployed, &[], recording);
        assert_eq!(got.status, expected.status, "{recording} {}", got.stderr);
        assert_eq!(got.stdout, expected.stdout);
        assert_eq!(got.events.is_empty(), !recording);
    }
}
