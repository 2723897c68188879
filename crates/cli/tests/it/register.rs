//! `failsketch register` and `failsketch builds`: what is proven, what is named
//! as untrackable, and one clear sentence for everything that cannot be registered.

use crate::support;
use std::process::Output;

use crate::support::{FAILSKETCH, Place};
use build_store::{BuildManifest, BuildStore, ModuleStatus};
use object::read::elf::ElfFile64;
use object::{Object, ObjectSection, ObjectSymbol};

const MAIN: (&str, &str) = (
    "main.c",
    "#include <stdio.h>\nint helper(int);\n_Thread_local int calls;\n\
     int main(int argc, char **argv) {\n  (void)argv;\n  calls++;\n  printf(\"%d %d\\n\", helper(argc), calls);\n  return 0;\n}\n",
);
const HELPER: (&str, &str) = (
    "src/helper.c",
    "#include \"helper.h\"\nextern _Thread_local int calls;\nint helper(int x) {\n  calls += x;\n  return local(x) * 5;\n}\n",
);
const HEADER: (&str, &str) = (
    "src/helper.h",
    "static __attribute__((noinline)) int local(int x) { return x + 40; }\n",
);

fn one_sentence(output: &Output, words: &[&str]) {
    assert_eq!(output.status.code(), Some(1));
    let message = String::from_utf8(output.stderr.clone()).unwrap();
    assert_eq!(message.lines().count(), 1, "{message}");
    for word in words {
        assert!(message.contains(word), "`{word}` is not in: {message}");
    }
}

fn only_build(place: &Place) -> BuildManifest {
    let mut builds = BuildStore::open(place.store()).list().unwrap();
    assert_eq!(builds.len(), 1);
    builds.remove(0)
}

fn registered(place: &Place, name: &str) -> BuildManifest {
    let output = place.register(name);
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    only_build(place)
}

fn all_trackable(manifest: &BuildManifest) {
    for module in &manifest.modules {
        assert_eq!(module.status, ModuleStatus::Trackable, "{}", module.source);
    }
}

#[test]
fn a_program_is_proven_kept_and_listed() {
    let place = Place::new(&[MAIN, HELPER, HEADER]);
    place.run_ok("failsketch-cc -O2 -c main.c src/helper.c");
    place.run_ok("failsketch-cc main.o helper.o -o prog");
    let manifest = registered(&place, "prog");
    all_trackable(&manifest);
    assert_eq!(manifest.program, "prog");
    assert_eq!(manifest.foreign_code, []);
    let sources: Vec<&str> = manifest
        .modules
        .iter()
        .map(|module| module.source.as_str())
        .collect();
    let path = |name: &str| place.path(name).display().to_string();
    assert_eq!(sources, [path("main.c"), path("src/helper.c")]);
    let kept: Vec<&String> = manifest.sources.keys().collect();
    assert_eq!(
        kept,
        [
            &path("main.c"),
            &path("src/helper.c"),
            &path("src/helper.h")
        ]
    );

    let build = BuildStore::open(place.store())
        .load(&manifest.build_id)
        .unwrap();
    assert_eq!(build.binary().unwrap(), place.read("prog"));
    assert_eq!(
        build.source_line("src/helper.c", 4).as_deref(),
        Some("  calls += x;")
    );
    assert_eq!(build.source_line("helper.c", 99), None);
    assert!(build.module_bitcode(1).unwrap().starts_with(b"BC\xC0\xDE"));
    assert!(build.optimised_bitcode(1).unwrap().starts_with(b"BC"));
    assert!(build.module_bitcode(2).is_err());

    let list = place
        .command(&format!("{FAILSKETCH} builds"))
        .env("FAILSKETCH_STORE", place.store())
        .output()
        .unwrap();
    let list = String::from_utf8(list.stdout).unwrap();
    assert!(list.contains(&manifest.build_id.0) && list.contains("2/2 proven"));
    let json = place
        .command(&format!("{FAILSKETCH} builds --json --store"))
        .arg(place.store())
        .output()
        .unwrap();
    let parsed: Vec<BuildManifest> = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!(parsed, [manifest]);
}

#[test]
fn the_deployed_program_runs_and_carries_nothing_of_ours() {
    let place = Place::new(&[MAIN, HELPER, HEADER]);
    place.run_ok("failsketch-cc -O2 -gz main.c src/helper.c -o prog");
    let store = place.store();
    let output = place
        .command(&format!("{FAILSKETCH} register prog --deploy out --store"))
        .arg(&store)
        .output()
        .unwrap();
    assert!(output.status.success());
    assert_eq!(place.run_ok("./out"), place.run_ok("./prog"));
    for name in support::section_names(&place.read("out")) {
        assert!(
            !name.starts_with(".failsketch") && !name.starts_with(".debug"),
            "{name}"
        );
    }
    let manifest = only_build(&place);
    all_trackable(&manifest);
    let build = BuildStore::open(store).load(&manifest.build_id).unwrap();
    assert_eq!(build.deployed().unwrap(), place.read("out"));
    // Compressed debug info was read too.
    assert_eq!(manifest.sources.len(), 3);
    let deployed = build.deployed().unwrap();
    let deployed: ElfFile64<'_> = ElfFile64::parse(&*deployed).unwrap();
    assert_eq!(
        deployed.build_id().unwrap().map(<[u8]>::to_vec),
        ElfFile64::<object::Endianness>::parse(&*place.read("prog"))
            .unwrap()
            .build_id()
            .unwrap()
            .map(<[u8]>::to_vec)
    );
}

/// Relaxed loads, thread-local storage, dropped functions, position-dependent code, C++.
#[test]
fn proofs_hold_through_what_linkers_do() {
    let cxx = (
        "c.cc",
        "#include <map>\n#include <string>\n#include <iostream>\nextern \"C\" int helper(int x);\nextern \"C\" { thread_local int calls; }\n\
         static std::map<std::string, int> seen;\nint main() { seen[\"a\"] = helper(2); try { throw seen.size(); } catch (size_t n) { std::cout << n << calls << std::endl; } }\n",
    );
    for flags in [
        "-O2 -fPIC -fno-plt",
        "-O0",
        "-O2 -ffunction-sections -fdata-sections -Wl,--gc-sections",
        "-O2 -fno-pie -no-pie",
        "-O2 -fuse-ld=lld-19",
        "-O3 -march=native -fstack-protector-strong -fcf-protection",
        "-O2 -fsanitize=undefined -fsanitize-trap=all",
    ] {
        let place = Place::new(&[MAIN, HELPER, HEADER, cxx]);
        place.run_ok(&format!(
            "failsketch-cc {flags} main.c src/helper.c -o prog"
        ));
        let manifest = registered(&place, "prog");
        all_trackable(&manifest);
        assert_eq!(manifest.modules.len(), 2, "{flags}");

        let place = Place::new(&[HELPER, HEADER, cxx]);
        place.run_ok(&format!("failsketch-cc {flags} -c src/helper.c"));
        place.run_ok(&format!("failsketch-c++ {flags} c.cc helper.o -o prog"));
        all_trackable(&registered(&place, "prog"));
    }
}

#[test]
fn code_that_is_not_the_modules_is_untrackable_by_name() {
    let place = Place::new(&[MAIN, HELPER, HEADER]);
    place.run_ok("failsketch-cc -O2 main.c src/helper.c -o prog");
    let mut bytes = place.read("prog");
    let offset = {
        let file: ElfFile64<'_> = ElfFile64::parse(&*bytes).unwrap();
        let local = file.symbol_by_name("local").unwrap();
        let text = file.section_by_name(".text").unwrap();
        (local.address() - text.address() + text.file_range().unwrap().0) as usize
    };
    bytes[offset] ^= 1;
    std::fs::write(place.path("prog"), bytes).unwrap();
    let manifest = registered(&place, "prog");
    assert_eq!(manifest.modules[0].status, ModuleStatus::Trackable);
    assert_eq!(
        manifest.modules[1].status,
        ModuleStatus::Untrackable {
            reason: "the code of function local differs from the binary's when compiled again"
                .to_string()
        }
    );
}

/// Two inline functions of one name, compiled differently: the linker takes one.
#[test]
fn another_modules_copy_of_an_inline_function_is_no_difference() {
    let inline = "inline int __attribute__((noinline)) f(int x) { int s = 0; for (int i = 0; i < x; i++) s += i * x; return s; }\n";
    let place = Place::new(&[
        (
            "a.cc",
            &format!("{inline}int b(int); int main() {{ return f(3) + b(2); }}\n"),
        ),
        (
            "b.cc",
            &format!("{inline}int b(int x) {{ return f(x); }}\n"),
        ),
    ]);
    place.run_ok("failsketch-c++ -O0 -c a.cc");
    place.run_ok("failsketch-c++ -O2 -c b.cc");
    place.run_ok("failsketch-c++ a.o b.o -o prog");
    let manifest = registered(&place, "prog");
    all_trackable(&manifest);
    assert_eq!(manifest.modules[1].functions_not_in_binary, 1);
}

#[test]
fn assembly_and_foreign_objects_are_named() {
    let place = Place::new(&[
        (
            "main.c",
            "int asm_one(void); int gcc_one(void); int main(void) { return asm_one() + gcc_one(); }\n",
        ),
        (
            "a.s",
            ".text\n.globl asm_one\nasm_one:\n xor %eax,%eax\n ret\n.section .note.GNU-stack,\"\",@progbits\n",
        ),
        (
            "g.c",
            "static int __attribute__((noinline)) inner(void) { return 0; } int gcc_one(void) { return inner(); }\n",
        ),
    ]);
    place.run_ok("gcc -O1 -c g.c");
    place.run_ok("failsketch-cc -c a.s");
    place.run_ok("failsketch-cc -O2 main.c a.o g.o -o prog");
    let output = place.register("prog");
    let summary = String::from_utf8(output.stdout).unwrap();
    assert!(summary.contains("1 proven"), "{summary}");
    assert!(summary.contains("a.o (assembly): asm_one"), "{summary}");
    assert!(
        summary.contains("g.o (compiled by another compiler (GCC:"),
        "{summary}"
    );
    assert!(summary.contains("gcc_one, inner"), "{summary}");
}

#[test]
fn what_cannot_be_registered_gets_one_sentence() {
    let place = Place::new(&[MAIN, HELPER, HEADER, ("text", "not a program")]);
    place.run_ok("clang-19 -g main.c src/helper.c -o plain");
    place.run_ok("failsketch-cc main.c src/helper.c -o prog");
    place.run_ok("failsketch-cc -c main.c");
    place.run_ok("failsketch-cc -Wl,--build-id=none main.c src/helper.c -o anonymous");
    place.run_ok("strip -o stripped prog");
    place.run_ok("strip -g -o without-debug prog");
    let deploy = place
        .command(&format!(
            "{FAILSKETCH} register prog --deploy deployed --store elsewhere"
        ))
        .output()
        .unwrap();
    assert!(deploy.status.success());

    one_sentence(&place.register("absent"), &["absent does not exist"]);
    one_sentence(
        &place.register("text"),
        &["text is not an ELF program for x86-64"],
    );
    one_sentence(&place.register("main.o"), &["is not an ELF program"]);
    one_sentence(&place.register("."), &["could not be read"]);
    one_sentence(
        &place.register("plain"),
        &["carries no bitcode", "CC=failsketch-cc"],
    );
    one_sentence(&place.register("deployed"), &["carries no bitcode"]);
    one_sentence(
        &place.register("stripped"),
        &["stripped of its symbols", "--deploy"],
    );
    one_sentence(
        &place.register("without-debug"),
        &["stripped of its debug information"],
    );
    one_sentence(&place.register("anonymous"), &["no build-id"]);
    assert!(
        !place.store().exists(),
        "a refused binary left something behind"
    );
}

#[test]
fn truncated_entries_are_named_and_registering_again_repairs_them() {
    let place = Place::new(&[MAIN, HELPER, HEADER]);
    place.run_ok("failsketch-cc -O2 main.c src/helper.c -o prog");
    let manifest = registered(&place, "prog");
    let store = BuildStore::open(place.store());
    let truncate = |entry: &str| {
        let path = place.store().join(entry);
        let bytes = std::fs::read(&path).unwrap();
        std::fs::write(&path, &bytes[..bytes.len() / 2]).unwrap();
    };

    let blob = format!("blobs/{}", manifest.binary);
    truncate(&blob);
    let error = store.load(&manifest.build_id).unwrap().binary();
    let message = error.unwrap_err().to_string();
    assert!(
        message.contains(&blob) && message.contains("`failsketch register`"),
        "{message}"
    );

    let entry = format!("builds/{}.json", manifest.build_id);
    truncate(&entry);
    let output = place
        .command(&format!("{FAILSKETCH} builds --store"))
        .arg(place.store())
        .output()
        .unwrap();
    one_sentence(&output, &[&entry, "`failsketch register`"]);
    assert!(store.load(&manifest.build_id).is_err());

    assert_eq!(registered(&place, "prog"), manifest);
    let build = store.load(&manifest.build_id).unwrap();
    assert_eq!(build.binary().unwrap(), place.read("prog"));
}

#[test]
fn build_ids_cannot_leave_the_store() {
    let store = BuildStore::open("/nonexistent/store");
    for id in ["../../etc/passwd", "", "xyz"] {
        let error = store.load(&sketch_model::BuildId(id.to_string()));
        assert!(error.unwrap_err().to_string().contains("is not a build-id"));
    }
    let unknown = store.load(&sketch_model::BuildId("ab12".to_string()));
    assert!(
        unknown
            .unwrap_err()
            .to_string()
            .contains("not in the store")
    );
    assert_eq!(store.list().unwrap(), []);
}
