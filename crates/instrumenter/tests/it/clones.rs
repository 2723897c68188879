//! P′ made of clones behaves as P does, with recording off and on, however the
//! program was compiled and linked.

use crate::common::{Built, build, run};
use instrumenter::Way;

const FEATURES: &str = include_str!("../programs/features.c");
const EXCEPTIONS: &str = include_str!("../programs/exceptions.cc");
const THREADS: &str = include_str!("../programs/threads.c");

/// Compiler flags and linker flags.
const FORMS: &[(&[&str], &[&str])] = &[
    (&["-O0", "-fPIE"], &["-pie"]),
    (&["-O2", "-fPIE"], &["-pie"]),
    (&["-O0", "-fno-pie"], &["-no-pie"]),
    (&["-O2", "-fno-pie"], &["-no-pie"]),
    (&["-O2", "-fno-pie"], &["-static"]),
    (&["-O2", "-fPIE"], &["-static-pie"]),
    (
        &["-O2", "-fPIE", "-ffunction-sections", "-fdata-sections"],
        &["-pie", "-fuse-ld=lld", "-Wl,--gc-sections"],
    ),
    (
        &["-O1", "-fPIE", "-fno-plt", "-fcf-protection"],
        &["-pie", "-Wl,-z,now"],
    ),
    (&["-O2", "-fPIC", "-DWITHOUT_THREAD_LOCALS"], &["-pie"]),
];

/// Hooks all functions of the program and compares its runs with P's.
fn behaves_the_same(name: &str, source: &str, forms: &[(&[&str], &[&str])]) {
    for (compile, link) in forms {
        let program = build(&[(name, source)], compile, link);
        let plan = program.plan(&own_functions(&program, name));
        let tracked = instrumenter::track(&program.build, &plan).unwrap();
        let what = format!("{compile:?} {link:?}");
        assert!(
            matches!(tracked.way, Way::Clones { .. }),
            "{what}: {}",
            tracked.way
        );
        let p = program.write("p", &program.build.deployed().unwrap());
        let deployed = program.write("tracked", &tracked.deployed);
        let full = program.write("full", &tracked.full);
        let expected = run(&p, &["argument"], false);
        assert!(expected.status.code().is_some(), "{what}: P itself ends");
        for file in [&deployed, &full] {
            for recording in [false, true] {
                let got = run(file, &["argument"], recording);
                assert_eq!(
                    (got.status, &got.stdout, &got.stderr),
                    (expected.status, &expected.stdout, &expected.stderr),
                    "{what}, recording: {recording}"
                );
                assert_eq!(got.events.is_empty(), !recording, "{what}");
            }
        }
    }
}

/// The functions written in the program's own file.
fn own_functions<'b>(program: &'b Built, file: &str) -> Vec<&'b str> {
    let statements = program.program.statements().iter();
    let own = statements.filter(|s| s.location.file.ends_with(file));
    let mut names: Vec<&str> = own.map(|s| s.function.as_str()).collect();
    names.dedup();
    names
}

#[test]
fn everything_that_c_code_refers_to() {
    behaves_the_same("features.c", FEATURES, FORMS);
}

#[test]
fn exceptions_and_destructors() {
    behaves_the_same("exceptions.cc", EXCEPTIONS, FORMS);
}

#[test]
fn threads_and_a_fork() {
    behaves_the_same("threads.c", THREADS, &FORMS[..5]);
}
