//! What clones leave as it was, what they record, how they crash, and what is
//! refused to be cloned.

use crate::common::{Built, build, run};
use instrumenter::{Refusal, TrackedBuild, Way, track, track_by_relinking};
use object::{Object, ObjectSection, ObjectSymbol};
use runtime::layout::Event;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

const FEATURES: &str = include_str!("../programs/features.c");
const CRASH: &str = include_str!("../programs/crash.c");
const HOOKED: [&str; 3] = ["choose", "recursive", "land"];

fn features() -> Built {
    build(&[("features.c", FEATURES)], &["-O2", "-fPIE"], &["-pie"])
}

fn clones_of(tracked: &TrackedBuild) -> usize {
    match &tracked.way {
        Way::Clones { functions } => *functions,
        Way::Relinked { reason } => panic!("linked again: {reason}"),
    }
}

/// Section contents by name, without those that have no bytes.
fn sections(file: &[u8]) -> BTreeMap<String, (u64, Vec<u8>)> {
    let file = object::File::parse(file).unwrap();
    file.sections()
        .filter(|s| s.address() != 0)
        .map(|s| {
            let name = s.name().unwrap().to_owned();
            (name, (s.address(), s.data().unwrap().to_vec()))
        })
        .collect()
}

#[test]
fn code_without_hooks_is_byte_for_byte_what_it_was() {
    let program = features();
    let tracked = track(&program.build, &program.plan(&HOOKED)).unwrap();
    assert_eq!(clones_of(&tracked), 3);
    let p = program.build.deployed().unwrap();
    let file = object::File::parse(&*p).unwrap();
    let entries: Vec<u64> = file
        .symbols()
        .filter(|s| HOOKED.contains(&s.name().unwrap()))
        .map(|s| s.address())
        .collect();
    assert_eq!(entries.len(), 3);
    let (before, after) = (sections(&p), sections(&tracked.deployed));
    let mut changed = Vec::new();
    for (name, (address, bytes)) in &before {
        let (_, now) = &after[name];
        assert_eq!(bytes.len(), now.len(), "{name}");
        let different = (0..bytes.len()).filter(|at| bytes[*at] != now[*at]);
        for at in different.map(|at| address + at as u64) {
            changed.push(name.as_str());
            if name == ".text" {
                let within_jump = entries.iter().any(|e| (*e..e + 5).contains(&at));
                assert!(within_jump, "the code at {at:#x} has changed");
            }
        }
    }
    changed.dedup();
    let expected = [".dynamic", ".init_array", ".note.gnu.build-id", ".text"];
    assert!(
        changed.iter().all(|name| expected.contains(name)),
        "{changed:?}"
    );
    assert!(changed.contains(&".text") && changed.contains(&".note.gnu.build-id"));
}

#[test]
fn the_same_build_and_plan_give_the_same_bytes() {
    let program = features();
    let plan = program.plan(&HOOKED);
    let (one, other) = (track(&program.build, &plan), track(&program.build, &plan));
    let (one, other) = (one.unwrap(), other.unwrap());
    assert!(one.full == other.full && one.deployed == other.deployed);
    assert_eq!(one.placement.places, other.placement.places);
}

/// What does not depend on where things are or on the clock.
fn essence(events: &[Vec<Event>]) -> Vec<Vec<(u32, u16, u16, u64)>> {
    let small = |value: u64| if value < 1 << 20 { value } else { u64::MAX };
    let of = |e: &Event| (e.site, e.kind & 0xff, e.size, small(e.value));
    let threads = events.iter();
    threads.map(|t| t.iter().map(of).collect()).collect()
}

#[test]
fn clones_record_what_hooks_in_the_functions_themselves_record() {
    let program = features();
    let plan = program.plan(&HOOKED);
    let cloned = track(&program.build, &plan).unwrap();
    assert_eq!(clones_of(&cloned), 3);
    let relinked = track_by_relinking(&program.build, &plan, Refusal::SharedObject).unwrap();
    assert_eq!(cloned.placement.places, relinked.placement.places);
    let one = run(&program.write("cloned", &cloned.deployed), &[], true);
    let other = run(&program.write("relinked", &relinked.deployed), &[], true);
    assert_eq!(one.stdout, other.stdout);
    assert!(one.events.iter().map(Vec::len).sum::<usize>() > 50);
    assert_eq!(essence(&one.events), essence(&other.events));
}

/// The functions at these addresses of a file, innermost first, inlined ones too.
fn functions_at(file: &Path, addresses: &[String]) -> Vec<String> {
    let mut tool = Command::new("addr2line");
    tool.args(["-f", "-i", "-e"]).arg(file).args(addresses);
    let output = tool.output().expect("addr2line is installed");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let names = text.lines().step_by(2).filter(|name| *name != "??");
    names.map(str::to_owned).collect()
}

#[test]
fn a_crash_in_a_clone_has_the_stack_of_a_crash_in_p() {
    let flags = ["-O2", "-fPIE", "-fno-optimize-sibling-calls"];
    let program = build(&[("crash.c", CRASH)], &flags, &["-pie"]);
    let tracked = track(&program.build, &program.plan(&["tiny", "inner", "outer"])).unwrap();
    assert_eq!(clones_of(&tracked), 3);
    let p = program.write("p", &program.build.deployed().unwrap());
    let p_full = program.write("p.full", &program.build.binary().unwrap());
    let deployed = program.write("tracked", &tracked.deployed);
    let full = program.write("tracked.full", &tracked.full);
    let stack = |program: &Path, symbols: &Path, recording: bool| {
        let ran = run(program, &[], recording);
        assert_eq!(ran.status.code(), Some(11), "{}", ran.stderr);
        let addresses: Vec<String> = ran.stdout.lines().map(str::to_owned).collect();
        let mut names = functions_at(symbols, &addresses);
        names.retain(|name| ["tiny", "inner", "outer", "main"].contains(&name.as_str()));
        names
    };
    let expected = stack(&p, &p_full, false);
    assert_eq!(
        expected,
        ["tiny", "inner", "inner", "inner", "outer", "main"]
    );
    for recording in [false, true] {
        assert_eq!(stack(&deployed, &full, recording), expected, "{recording}");
    }
}

/// Builds, asserts the refusal, and that the program is linked again and works.
fn is_relinked(source: &str, compile: &[&str], link: &[&str], hooked: &str) -> Refusal {
    let program = build(&[("p.c", source)], compile, link);
    let tracked = track(&program.build, &program.plan(&[hooked])).unwrap();
    let Way::Relinked { reason } = tracked.way else {
        panic!("{hooked} was cloned");
    };
    let p = run(
        &program.write("p", &program.build.deployed().unwrap()),
        &[],
        false,
    );
    let ran = run(&program.write("tracked", &tracked.deployed), &[], true);
    assert_eq!((ran.status, ran.stdout), (p.status, p.stdout));
    assert!(!ran.events.is_empty());
    reason
}

#[test]
fn what_cannot_be_cloned_is_linked_again_and_says_why() {
    let jumps = "#include <stdio.h>\n\
        __attribute__((noinline)) int go(int n) {\n\
            static void *const to[] = {&&a, &&b, &&c};\n\
            volatile int x = n;\n\
            goto *to[n % 3];\n\
            a: x += 1;\n b: x += 10;\n c: x += 100;\n\
            return x; }\n\
        int main(void) { printf(\"%d %d\\n\", go(0), go(2)); return 0; }\n";
    let function = || "go".to_owned();
    assert_eq!(
        is_relinked(jumps, &["-O2", "-fPIE"], &["-pie"], "go"),
        Refusal::ComputedGoto {
            function: function()
        }
    );
    let table = "#include <stdio.h>\n\
        __attribute__((noinline)) int go(int n) {\n\
            int twice = n * 2;\n\
            __asm__ volatile(\"1: nop\\n .pushsection places,\\\"a\\\"\\n .quad 1b - .\\n .popsection\");\n\
            if (n > 3) puts(\"more\");\n\
            return twice; }\n\
        int main(void) { return go(4); }\n";
    assert_eq!(
        is_relinked(table, &["-O2", "-fPIE"], &["-pie"], "go"),
        Refusal::AssemblyElsewhere {
            function: function()
        }
    );
    let folded = "#include <stdio.h>\n\
        __attribute__((noinline)) int go(int *n) { n[3] += n[1]; return n[2] * n[0]; }\n\
        __attribute__((noinline)) int same(int *n) { n[3] += n[1]; return n[2] * n[0]; }\n\
        int main(void) { int a[4] = {2, 3, 4, 5}; printf(\"%d\\n\", go(a) + same(a) + a[3]); return 0; }\n";
    let lld = ["-pie", "-fuse-ld=lld", "-Wl,--icf=all"];
    assert_eq!(
        is_relinked(folded, &["-O2", "-fPIE", "-ffunction-sections"], &lld, "go"),
        Refusal::Folded {
            function: function(),
            other: "same".into()
        }
    );
    let thread_local = "#include <stdio.h>\nstatic __thread int n;\n\
        __attribute__((noinline)) int go(int by) { n += by; return n; }\n\
        int main(void) { printf(\"%d\\n\", go(2) + go(3)); return 0; }\n";
    let refused = is_relinked(thread_local, &["-O2", "-fPIC"], &["-pie"], "go");
    assert!(matches!(refused, Refusal::Relocation { .. }), "{refused}");
}

/// The compiler makes numbers of short words that are only compared; where a hook
/// wants the comparison's result, it is a call that needs the word itself.
#[test]
fn a_literal_that_p_does_without_comes_along_with_the_clone() {
    let source = "#include <stdio.h>\n#include <string.h>\n\
        __attribute__((noinline)) int go(const char *word) {\n\
            if (memcmp(word, \"get \", 4) == 0) return 1;\n\
            if (memcmp(word, \"incr\", 4) == 0) return 2;\n\
            return 3; }\n\
        int main(void) { printf(\"%d%d%d\\n\", go(\"get x\"), go(\"incr x\"), go(\"else\")); return 0; }\n";
    for (compile, link) in [("-fPIE", "-pie"), ("-fno-pie", "-no-pie")] {
        let program = build(&[("p.c", source)], &["-O2", compile], &[link]);
        let tracked = track(&program.build, &program.plan(&["go"])).unwrap();
        assert_eq!(clones_of(&tracked), 1, "{}", tracked.way);
        // P's own, which its code does not refer to, and the clone's.
        let p = program.build.deployed().unwrap();
        let count = |bytes: &[u8]| bytes.windows(5).filter(|w| w == b"incr\0").count();
        assert_eq!((count(&p), count(&tracked.deployed)), (1, 2));
        for recording in [false, true] {
            let ran = run(&program.write("tracked", &tracked.deployed), &[], recording);
            assert_eq!((ran.status.code(), &*ran.stdout), (Some(0), "123\n"));
        }
    }
}
