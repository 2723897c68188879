//! Linking a registered program again from its stored bitcode: it works, and
//! every function is the one of the original program.

use std::collections::BTreeMap;
use std::path::PathBuf;

use crate::support::Place;
use build_store::relink;
use build_store::{BuildStore, RegisteredBuild, Stage, compile};
use object::read::elf::ElfFile64;
use object::{Object, ObjectSection, ObjectSymbol, SymbolKind};

fn registered(place: &Place, name: &str) -> RegisteredBuild {
    let output = place.register(name);
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let store = BuildStore::open(place.store());
    let manifest = store.list().unwrap().remove(0);
    store.load(&manifest.build_id).unwrap()
}

/// Compiles every module from its optimised bitcode, as the instrumenter will.
fn objects(build: &RegisteredBuild, folder: &tempfile::TempDir) -> Vec<PathBuf> {
    let modules = build.manifest().modules.iter().enumerate();
    modules
        .map(|(index, module)| {
            let bitcode = folder.path().join(format!("{index}.bc"));
            let object = folder.path().join(format!("{index}.o"));
            std::fs::write(&bitcode, build.optimised_bitcode(index).unwrap()).unwrap();
            let stage = Stage::ObjectFromOptimised;
            compile(&module.flags, stage, &bitcode, &object, &build.tools()).unwrap();
            object
        })
        .collect()
}

/// Function names with their sizes; the sizes cannot depend on the layout.
fn function_sizes(bytes: &[u8]) -> BTreeMap<String, Vec<u64>> {
    let file: ElfFile64<'_> = ElfFile64::parse(bytes).unwrap();
    let mut sizes: BTreeMap<String, Vec<u64>> = BTreeMap::new();
    for symbol in file.symbols() {
        if symbol.kind() == SymbolKind::Text && symbol.is_definition() {
            let name = symbol.name().unwrap().to_string();
            sizes.entry(name).or_default().push(symbol.size());
        }
    }
    for list in sizes.values_mut() {
        list.sort_unstable();
    }
    sizes
}

fn code(bytes: &[u8]) -> Vec<u8> {
    let file: ElfFile64<'_> = ElfFile64::parse(bytes).unwrap();
    let text = file.section_by_name(".text").unwrap();
    text.data().unwrap().to_vec()
}

/// Registers `name`, moves the build's own files away, links again and compares.
fn relinks(place: &Place, name: &str) -> Vec<u8> {
    let build = registered(place, name);
    // Only the store may be needed: inputs of the build are gone by now.
    for (path, _) in place.files() {
        let is_input = path
            .extension()
            .is_some_and(|end| ["o", "a", "c", "cc", "s", "map"].contains(&end.to_str().unwrap()));
        if is_input {
            std::fs::remove_file(place.path(path.to_str().unwrap())).unwrap();
        }
    }
    let folder = tempfile::tempdir().unwrap();
    let again = place.path("again");
    relink(&build, &objects(&build, &folder), &[], &again).unwrap();
    let (original, again) = (place.read(name), std::fs::read(&again).unwrap());
    assert_eq!(function_sizes(&original), function_sizes(&again));
    assert_eq!(place.run_ok(&format!("./{name}")), place.run_ok("./again"));
    assert_eq!(code(&original), code(&again), "code of {name}");
    again
}

const MAIN: (&str, &str) = (
    "main.c",
    "#include <stdio.h>\n#include <math.h>\nint twice(int); int asm_one(void); int gcc_one(int);\n\
     int main(int argc, char **argv) { (void)argv; printf(\"%d %d %d %.1f\\n\", twice(argc), asm_one(), gcc_one(argc), sqrt(argc)); return 0; }\n",
);
const TWICE: (&str, &str) = (
    "twice.c",
    "int calls; int twice(int x) { calls++; return 2 * x; }\n",
);
const ASSEMBLY: (&str, &str) = (
    "one.s",
    ".text\n.globl asm_one\n.type asm_one,@function\nasm_one:\n mov $1,%eax\n ret\n.size asm_one,.-asm_one\n.section .note.GNU-stack,\"\",@progbits\n",
);
const GCC: (&str, &str) = ("gcc.c", "int gcc_one(int x) { return x + 1; }\n");

#[test]
fn a_one_call_build_with_assembly_and_a_foreign_object() {
    let place = Place::new(&[MAIN, TWICE, ASSEMBLY, GCC]);
    place.run_ok("gcc -O1 -c gcc.c");
    place.run_ok("failsketch-cc -O2 -MD -Wall -Werror main.c one.s twice.c gcc.o -lm -o prog");
    relinks(&place, "prog");
    assert_eq!(place.run_ok("./again"), "2 1 2 1.0\n");
}

#[test]
fn mixed_archives_by_name_and_by_path() {
    for link in [
        "main.o -L. -lx -lm",
        "main.o libx.a -lm",
        "main.o -Wl,--whole-archive libx.a -Wl,--no-whole-archive -lm",
        "main.o -Wl,--whole-archive,libx.a,--no-whole-archive,-Map,out.map -lm",
        "-Wl,--start-group main.o libx.a -Wl,--end-group -Wl,-Map=out.map -lm -Wl,--gc-sections",
    ] {
        let place = Place::new(&[MAIN, TWICE, ASSEMBLY, GCC]);
        place.run_ok("gcc -O1 -c gcc.c");
        place.run_ok("failsketch-cc -O2 -c main.c twice.c one.s");
        place.run_ok("ar rcs libx.a twice.o one.o gcc.o");
        place.run_ok(&format!("failsketch-cc {link} -o prog"));
        if place.path("out.map").exists() {
            std::fs::remove_file(place.path("out.map")).unwrap();
        }
        let build = registered(&place, "prog");
        let folder = tempfile::tempdir().unwrap();
        for name in ["main.o", "twice.o", "one.o", "gcc.o", "libx.a"] {
            std::fs::remove_file(place.path(name)).unwrap();
        }
        relink(&build, &objects(&build, &folder), &[], &place.path("again"))
            .unwrap_or_else(|error| panic!("{link}: {error}"));
        assert_eq!(place.run_ok("./again"), place.run_ok("./prog"), "{link}");
        assert_eq!(
            function_sizes(&place.read("again")),
            function_sizes(&place.read("prog")),
            "{link}"
        );
        // The map file of the build is not written again.
        assert!(!place.path("out.map").exists(), "{link}");
    }
}

#[test]
fn cxx_with_exceptions_and_a_version_script() {
    let place = Place::new(&[
        (
            "main.cc",
            "#include <iostream>\n#include <stdexcept>\nstruct A { A(); }; extern int order;\n\
             int main() { try { throw std::runtime_error(\"x\"); } catch (std::exception &e) { std::cout << e.what() << order << std::endl; } }\n",
        ),
        (
            "a.cc",
            "int order = 1; struct A { A() { order = order * 10 + 1; } } a;\n",
        ),
        (
            "b.cc",
            "extern int order; struct B { B() { order = order * 10 + 2; } } b;\n",
        ),
        ("v.map", "{ local: hidden*; };\n"),
    ]);
    place.run_ok("failsketch-c++ -O2 -c a.cc b.cc");
    place.run_ok("failsketch-c++ -O2 a.o main.cc b.o -Wl,--version-script=v.map -o prog");
    relinks(&place, "prog");
    assert_eq!(place.run_ok("./again"), "x112\n");
}

#[test]
fn extra_objects_are_linked_in() {
    let place = Place::new(&[
        ("a.c", "int main(void) { return 0; }\n"),
        (
            "extra.c",
            "__attribute__((used)) int extra_one(void) { return 1; }\n",
        ),
    ]);
    place.run_ok("failsketch-cc -O2 a.c -o prog");
    place.run_ok("clang-19 -O2 -c extra.c");
    let build = registered(&place, "prog");
    let folder = tempfile::tempdir().unwrap();
    let extra = [place.path("extra.o")];
    relink(
        &build,
        &objects(&build, &folder),
        &extra,
        &place.path("again"),
    )
    .unwrap();
    assert!(function_sizes(&place.read("again")).contains_key("extra_one"));
    place.run_ok("./again");
}

#[test]
fn what_cannot_be_linked_again_says_why() {
    let place = Place::new(&[("a.c", "int main(void) { return 0; }\n")]);
    place.run_ok("failsketch-cc -O2 -c a.c");
    place.run_ok("clang-19 a.o -o prog");
    let build = registered(&place, "prog");
    let folder = tempfile::tempdir().unwrap();
    let error = relink(&build, &objects(&build, &folder), &[], &place.path("again"));
    let message = error.unwrap_err().to_string();
    assert!(
        message.contains("link line of prog was not recorded"),
        "{message}"
    );

    let place = Place::new(&[("a.c", "int main(void) { return 0; }\n")]);
    place.run_ok("failsketch-cc -O2 a.c -o prog");
    let build = registered(&place, "prog");
    let error = relink(&build, &[], &[], &place.path("again"));
    let message = error.unwrap_err().to_string();
    assert!(message.contains("1 modules but 0 objects"), "{message}");
}

/// Debian's `libm.so` is a linker script; CMake names libraries by their paths.
#[test]
fn scripts_of_the_system_are_linked_by_their_path() {
    let script = "/usr/lib/x86_64-linux-gnu/libm.so";
    assert!(!std::fs::read(script).unwrap().starts_with(b"\x7fELF"));
    let text = "#include <math.h>\n#include <stdio.h>\nint main(int n, char **a) { (void)a; printf(\"%.3f\\n\", sin(n)); return 0; }\n";
    let place = Place::new(&[("main.c", text)]);
    place.run_ok(&format!("failsketch-cc -O2 main.c {script} -o prog"));
    relinks(&place, "prog");
}
