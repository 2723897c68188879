//! The wrapper against clang itself: same code, same statuses, same outputs, over
//! the kinds of calls that build systems make.

use crate::support;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::ExitStatusExt;

use crate::support::{Place, modules_in, same_as_clang, section_names};

const MAIN: (&str, &str) = (
    "main.c",
    "#include <stdio.h>\nint twice(int);\nstatic int odd(int x) { return x * 3 + 1; }\n\
     int main(int argc, char **argv) { (void)argv; printf(\"%d %d\\n\", twice(argc), odd(argc)); return 0; }\n",
);
const TWICE: (&str, &str) = (
    "twice.c",
    "int calls;\nint unused(int x) { return x - 7; }\nint twice(int x) { calls++; for (int i = 0; i < x; i++) calls += i; return 2 * x; }\n",
);
const THRICE: (&str, &str) = ("lib/thrice.c", "int thrice(int x) { return 3 * x; }\n");
const ASSEMBLY: (&str, &str) = (
    "twice.s",
    ".text\n.globl twice\n.type twice,@function\ntwice:\n leal (%rdi,%rdi),%eax\n ret\n.size twice,.-twice\n.section .note.GNU-stack,\"\",@progbits\n",
);
const CXX: (&str, &str) = (
    "main.cc",
    "#include <stdexcept>\n#include <string>\n#include <vector>\n#include <cstdio>\n\
     static int depth(int n) { std::vector<int> v(n); if (n > 3) throw std::runtime_error(\"deep \" + std::to_string(n)); return v.size() + depth(n + 1); }\n\
     int main() { try { return depth(1); } catch (const std::exception &e) { std::puts(e.what()); return 0; } }\n",
);

#[test]
fn several_sources_in_one_call() {
    let place = same_as_clang(&[MAIN, TWICE], &["cc -O2 main.c twice.c", "./a.out"]);
    assert_eq!(modules_in(&place.read("a.out")), 2);
    assert!(section_names(&place.read("a.out")).contains(&".failsketch.link".to_string()));
}

#[test]
fn several_objects_in_one_call() {
    let place = same_as_clang(
        &[MAIN, TWICE, THRICE],
        &["cc -O2 -c main.c twice.c lib/thrice.c"],
    );
    for object in ["main.o", "twice.o", "thrice.o"] {
        let names = section_names(&place.read(object));
        assert!(names.contains(&".failsketch.bc".to_string()), "{object}");
        assert!(!names.contains(&".llvmbc".to_string()), "{object}");
        assert_eq!(modules_in(&place.read(object)), 1, "{object}");
    }
}

#[test]
fn named_outputs_and_every_level_of_optimisation() {
    for level in [
        "-O0", "-O1", "-O2", "-O3", "-Os", "-Oz", "-O2 -g0", "-Og -g3",
    ] {
        let place = same_as_clang(
            &[MAIN, TWICE],
            &[
                &format!("cc {level} -c main.c -o one.o"),
                &format!("cc {level} -c twice.c -otwo.lo"),
                "cc one.o two.lo --output prog",
                "./prog",
            ],
        );
        assert_eq!(modules_in(&place.read("prog")), 2, "{level}");
        assert!(
            section_names(&place.read("prog")).contains(&".debug_info".to_string()),
            "{level}"
        );
    }
}

#[test]
fn shared_objects() {
    let place = same_as_clang(
        &[MAIN, TWICE],
        &[
            "cc -O2 -fPIC -c twice.c",
            "cc -shared twice.o -o libtwice.so",
            "cc -O2 main.c -L. -ltwice -Wl,-rpath,$ORIGIN -o prog",
            "./prog",
            "cc -O2 -fPIC -shared twice.c -o libagain.so",
        ],
    );
    assert_eq!(modules_in(&place.read("prog")), 1);
    assert_eq!(modules_in(&place.read("libtwice.so")), 1);
    assert_eq!(modules_in(&place.read("libagain.so")), 1);
}

/// GNU ar asks the plugins of its folder about every object; see the wrapper's header.
#[test]
fn archives_of_gnu_ar_keep_their_symbol_index() {
    let place = same_as_clang(
        &[MAIN, TWICE, THRICE],
        &[
            "cc -O2 -c twice.c lib/thrice.c",
            "ar rcs libx.a twice.o thrice.o",
            "cc -O2 main.c -L. -lx -o prog",
            "./prog",
        ],
    );
    let index = place.run_ok("nm -s libx.a");
    assert!(index.contains("twice in twice.o"), "{index}");
    assert!(index.contains("thrice in thrice.o"), "{index}");
    // Only the member that was pulled in is there.
    assert_eq!(modules_in(&place.read("prog")), 2);
}

#[test]
fn partial_links() {
    let place = same_as_clang(
        &[MAIN, TWICE],
        &[
            "cc -O2 -c main.c twice.c",
            "cc -r -nostdlib main.o twice.o -o both.o",
            "cc both.o -o prog",
            "./prog",
        ],
    );
    assert_eq!(modules_in(&place.read("both.o")), 2);
    assert!(!section_names(&place.read("both.o")).contains(&".failsketch.link".to_string()));
    assert_eq!(modules_in(&place.read("prog")), 2);
}

#[test]
fn assembly_with_and_without_preprocessing() {
    let preprocessed = (
        "cpp.S",
        "#define N 7\n.text\n.globl seven\nseven:\n mov $N,%eax\n ret\n.section .note.GNU-stack,\"\",@progbits\n",
    );
    let place = same_as_clang(
        &[MAIN, ASSEMBLY, preprocessed],
        &[
            "cc -Wall -Werror -c twice.s cpp.S",
            "cc -O2 -Werror main.c twice.s -o prog",
            "cc -O2 -c main.c",
            "cc -Werror main.o twice.o cpp.o -o again",
            "./prog",
            "./again",
        ],
    );
    assert_eq!(modules_in(&place.read("twice.o")), 0);
    assert_eq!(modules_in(&place.read("prog")), 1);
}

#[test]
fn preprocessing_dependencies_and_assembly_output() {
    same_as_clang(
        &[MAIN, TWICE],
        &[
            "cc -E main.c -o main.i",
            "cc -O2 -S main.c",
            "cc -M main.c",
            "cc -MM main.c",
            "cc -MD -c main.c",
            "cc -MMD -MF deps.d -MT target -MP -c main.c -o m.o",
            "cc -fsyntax-only main.c",
            "cc -O2 -c main.s -o from-s.o",
            "cc -c main.i -o from-i.o",
            "cc -O2 -emit-llvm -c twice.c -o twice.bc",
            "cc -O2 -c twice.bc -o from-bc.o",
        ],
    );
}

#[test]
fn response_files() {
    let place = same_as_clang(
        &[
            MAIN,
            TWICE,
            (
                "compile.rsp",
                "-O2 '-c' \"main.c\"\n-o the\\ main.o @more.rsp",
            ),
            ("more.rsp", "-DX=\"a b\""),
            ("link.rsp", "'the main.o' twice.o -o prog"),
        ],
        &[
            "cc @compile.rsp",
            "cc -c -O2 twice.c",
            "cc @link.rsp",
            "./prog",
            "cc -c @absent.rsp",
        ],
    );
    assert_eq!(modules_in(&place.read("the main.o")), 1);
    assert_eq!(modules_in(&place.read("prog")), 2);
}

#[test]
fn sections_per_function_and_garbage_collection() {
    let place = same_as_clang(
        &[MAIN, TWICE, THRICE],
        &[
            "cc -O2 -ffunction-sections -fdata-sections -c main.c twice.c lib/thrice.c",
            "cc -Wl,--gc-sections main.o twice.o thrice.o -o prog",
            "./prog",
            "cc -fuse-ld=lld-19 -Wl,--gc-sections main.o twice.o thrice.o -o with-lld",
            "./with-lld",
        ],
    );
    assert!(modules_in(&place.read("prog")) >= 2);
    assert!(section_names(&place.read("prog")).contains(&".failsketch.link".to_string()));
    assert!(modules_in(&place.read("with-lld")) >= 2);
}

#[test]
fn options_that_the_drivers_own_embedding_refuses() {
    let place = same_as_clang(
        &[MAIN, TWICE],
        &[
            "cc -O2 -Wa,--noexecstack -c main.c -o a.o",
            "cc -O2 -mllvm -inline-threshold=5 -c main.c -o b.o",
            "cc -O2 -march=native -c twice.c -o c.o",
            "cc -O2 -fno-plt -fcf-protection -fstack-protector-strong -D_FORTIFY_SOURCE=2 -c main.c -o d.o",
            "cc -O2 -mcmodel=large -fno-pic -c main.c -o e.o",
            "cc -O2 -fno-integrated-as -c main.c -o f.o",
            "cc -O2 -save-temps -c main.c -o g.o",
        ],
    );
    for object in ["a.o", "b.o", "c.o", "d.o", "e.o", "f.o"] {
        assert_eq!(modules_in(&place.read(object)), 1, "{object}");
    }
}

#[test]
fn cxx_with_exceptions() {
    let place = same_as_clang(
        &[CXX],
        &[
            "c++ -O2 -std=c++17 -Wall -Wextra main.cc -o prog",
            "./prog",
            "c++ -O0 -c main.cc",
            "c++ main.o -o again",
            "./again",
        ],
    );
    assert_eq!(place.run_ok("./prog"), "deep 4\n");
}

#[test]
fn link_time_optimisation_builds_and_runs() {
    let place = same_as_clang(
        &[MAIN, TWICE],
        &[
            "cc -O2 -flto -c main.c twice.c",
            "cc -O2 -flto -fuse-ld=lld-19 main.o twice.o -o prog",
            "./prog",
        ],
    );
    assert_eq!(modules_in(&place.read("prog")), 0);
}

#[test]
fn a_foreign_object_is_linked_in() {
    let place = same_as_clang(
        &[MAIN, TWICE],
        &[
            "gcc -O2 -c twice.c",
            "cc -O2 main.c twice.o -o prog",
            "./prog",
        ],
    );
    assert_eq!(modules_in(&place.read("prog")), 1);
}

#[test]
fn source_from_standard_input() {
    use std::io::Write;
    use std::process::Stdio;

    let place = Place::new(&[]);
    let mut child = place
        .command(&format!("{} cc -x c -O2 -o prog -", support::FAILSKETCH))
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    let source = b"#include <stdio.h>\nint main(void) { puts(\"in\"); return 0; }\n";
    child.stdin.take().unwrap().write_all(source).unwrap();
    assert!(child.wait().unwrap().success());
    assert_eq!(place.run_ok("./prog"), "in\n");
    assert_eq!(modules_in(&place.read("prog")), 1);
}

#[test]
fn probes_see_clang_itself() {
    same_as_clang(
        &[
            ("bad.c", "int main(void) { return undeclared; }\n"),
            (
                "link.c",
                "int absent(void);\nint main(void) { return absent(); }\n",
            ),
            ("warn.c", "int f(int x) { int y; return x; }\n"),
        ],
        &[
            "cc -c bad.c",
            "cc -c missing.c",
            "cc -c warn.c -Wall",
            "cc -c warn.c -Wall -Werror",
            "cc --version",
            "cc -v",
            "cc -dumpmachine",
            "cc -dumpversion",
            "cc -print-prog-name=ld",
            "cc -print-search-dirs",
            "cc --print-resource-dir",
            "cc -qversion",
            "cc -V",
            "cc --no-such-option -c warn.c",
            "cc -c warn.c -o",
            "cc -c warn.c -o /dev/null",
            "cc -c -o - warn.c -fsyntax-only",
            "cc -### -c warn.c --version",
            "cc",
            "c++ --version",
        ],
    );
}

#[test]
fn a_failing_link_has_clangs_status() {
    let place = Place::new(&[(
        "a.c",
        "int absent(void);\nint main(void) { return absent(); }\n",
    )]);
    let (ours, theirs) = (place.run("failsketch-cc a.c"), place.run("clang-19 a.c"));
    assert_eq!(ours.status, theirs.status);
    assert!(String::from_utf8_lossy(&ours.stderr).contains("undefined reference to `absent'"));
    assert!(!place.path("a.out").exists());
}

#[test]
fn death_by_signal_is_passed_on() {
    let place = Place::new(&[TWICE, ("crash.sh", "#!/bin/sh\nkill -TERM $$\n")]);
    place.run_ok("chmod +x crash.sh");
    let output = place
        .command(&format!("{} cc -c twice.c", support::FAILSKETCH))
        .env("FAILSKETCH_CLANG", place.path("crash.sh"))
        .output()
        .unwrap();
    assert_eq!(output.status.signal(), Some(15));
}

#[test]
fn a_missing_compiler_is_named() {
    let place = Place::new(&[TWICE]);
    for line in ["cc -c twice.c", "cc --version"] {
        let output = place
            .command(&format!("{} {line}", support::FAILSKETCH))
            .env("FAILSKETCH_CLANG", "/nonexistent/clang")
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(127));
        let message = String::from_utf8(output.stderr).unwrap();
        assert!(
            message.contains("install the package clang-19"),
            "{message}"
        );
        assert_eq!(message.lines().count(), 1, "{message}");
    }
}

#[test]
fn outputs_keep_inode_and_mode_and_are_changed_once() {
    let place = Place::new(&[TWICE]);
    place.run_ok("failsketch-cc -c twice.c");
    let before = (
        std::fs::metadata(place.path("twice.o")).unwrap(),
        place.read("twice.o"),
    );
    // A link call names the object again; it must not be touched.
    place.run_ok("failsketch-cc -r -nostdlib twice.o -o other.o");
    assert_eq!(place.read("twice.o"), before.1);
    assert_eq!(
        std::fs::metadata(place.path("twice.o")).unwrap().ino(),
        before.0.ino()
    );
    assert_eq!(before.0.mode() & 0o777, 0o644);
    place.run_ok("readelf --wide --all twice.o");
    place.run_ok("llvm-readelf-19 --all twice.o");
}

#[test]
fn cmake_builds() {
    let files = [
        MAIN,
        TWICE,
        CXX,
        (
            "CMakeLists.txt",
            "cmake_minimum_required(VERSION 3.13)\nproject(x C CXX)\nadd_library(t STATIC twice.c)\n\
             add_executable(c main.c)\ntarget_link_libraries(c t)\nadd_executable(cpp main.cc)\n",
        ),
    ];
    let build = |place: &Place, cc: &str, cxx: &str| {
        place.run_ok(&format!(
            "cmake -S . -B b -DCMAKE_C_COMPILER={cc} -DCMAKE_CXX_COMPILER={cxx} -DCMAKE_BUILD_TYPE=Release"
        ));
        place.run_ok("cmake --build b");
        place.run_ok("./b/c") + &place.run_ok("./b/cpp")
    };
    let (wrapped, plain) = (Place::new(&files), Place::new(&files));
    let wrapper = |name: &str| wrapped.path("../bin").join(name).display().to_string();
    let ours = build(
        &wrapped,
        &wrapper("failsketch-cc"),
        &wrapper("failsketch-c++"),
    );
    assert_eq!(ours, build(&plain, "clang-19", "clang++-19"));
    for name in ["b/c", "b/cpp", "b/CMakeFiles/t.dir/twice.c.o"] {
        assert_eq!(
            support::text_sections(&wrapped.read(name)),
            support::text_sections(&plain.read(name)),
            "{name}"
        );
    }
    assert_eq!(modules_in(&wrapped.read("b/c")), 2);
}

#[test]
fn plain_make_with_a_configure_probe() {
    let files = [
        MAIN,
        TWICE,
        (
            "configure",
            "#!/bin/sh\nset -e\necho 'int main(void) { return 0; }' > conftest.c\n$CC conftest.c -o conftest\n./conftest\n\
             echo 'int main(void) { return no_such(); }' > conftest.c\nif $CC -Werror conftest.c -o conftest2 2>/dev/null; then exit 1; fi\n\
             rm -f conftest*\n$CC -dumpmachine > machine\n",
        ),
        (
            "Makefile",
            "prog: main.o libt.a\n\t$(CC) $(CFLAGS) -o $@ main.o -L. -lt\nlibt.a: twice.o\n\tar rc $@ $^\n\tranlib $@\n",
        ),
    ];
    let build = |place: &Place, cc: &str| {
        let run = |line: &str| {
            let status = place
                .command(line)
                .env("CC", cc)
                .env("CFLAGS", "-O2")
                .output();
            assert!(status.unwrap().status.success(), "{line}");
        };
        run("sh configure");
        run("make");
        place.run_ok("./prog")
    };
    let (wrapped, plain) = (Place::new(&files), Place::new(&files));
    assert_eq!(build(&wrapped, "failsketch-cc"), build(&plain, "clang-19"));
    support::same_files(&wrapped, &plain);
    assert_eq!(modules_in(&wrapped.read("prog")), 2);
}
