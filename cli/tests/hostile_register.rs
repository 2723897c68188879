//! Registering a file never does what the file wants: it runs no code that the file
//! names, and neither reads nor keeps files that are not the program's own.
//!
//! Each program here is an honest one whose recorded command line, link line or debug
//! info was changed afterwards, as whoever hands a file over can do.

mod support;

use build_store::link_record::{Driver, LinkRecord};
use build_store::{BuildManifest, BuildStore, ModuleStatus};
use object::read::elf::ElfFile64;
use object::{Object, ObjectSection};
use std::path::PathBuf;
use support::Place;

const MAIN: (&str, &str) = (
    "main.c",
    "int twice(int);\nint main(int argc, char **argv) {\n  (void)argv;\n  return twice(argc) - 2;\n}\n",
);
const TWICE: (&str, &str) = ("twice.c", "int twice(int x) { return 2 * x; }\n");

/// A shared object that leaves a file behind as soon as it is loaded.
struct Evil {
    library: PathBuf,
    marker: PathBuf,
}

impl Evil {
    fn build(place: &Place) -> Evil {
        let (library, marker) = (place.path("evil.so"), place.path("evil-was-here"));
        let text = format!(
            "#include <fcntl.h>\n__attribute__((constructor)) static void here(void) {{ open(\"{}\", O_CREAT | O_WRONLY, 0600); }}\n\
             int onload(void *it) {{ (void)it; return 0; }}\n",
            marker.display()
        );
        std::fs::write(place.path("evil.c"), text).unwrap();
        place.run_ok("clang-19 -shared -fPIC evil.c -o evil.so");
        Evil { library, marker }
    }

    fn ran(&self) -> bool {
        self.marker.exists()
    }
}

fn section(bytes: &[u8], name: &str) -> Vec<u8> {
    let file: ElfFile64<'_> = ElfFile64::parse(bytes).unwrap();
    let section = file.section_by_name(name).unwrap();
    section.data().unwrap().to_vec()
}

fn replace_section(place: &Place, program: &str, name: &str, bytes: &[u8]) {
    std::fs::write(place.path("section"), bytes).unwrap();
    place.run_ok(&format!(
        "objcopy --update-section {name}=section {program} {program}"
    ));
}

/// Adds flags to the recorded command line of every module.
fn add_flags(place: &Place, program: &str, flags: &[&str]) {
    let old = section(&place.read(program), ".failsketch.cmd");
    let added: String = flags.iter().map(|flag| format!("{flag}\0")).collect();
    let mut new = Vec::new();
    for word in old.split_inclusive(|byte| *byte == 0) {
        new.extend(word);
        if word == b"-cc1\0" {
            new.extend(added.as_bytes());
        }
    }
    replace_section(place, program, ".failsketch.cmd", &new);
}

fn registered(place: &Place) -> BuildManifest {
    let output = place.register("prog");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    BuildStore::open(place.store()).list().unwrap().remove(0)
}

#[test]
fn flags_that_load_code_make_a_module_untrackable_and_load_nothing() {
    let place = Place::new(&[MAIN, TWICE]);
    let evil = Evil::build(&place);
    let library = evil.library.display().to_string();
    // That it would leave its mark.
    place.run_ok("failsketch-cc -O2 -c twice.c -Xclang -load -Xclang ./evil.so");
    assert!(evil.ran());
    std::fs::remove_file(&evil.marker).unwrap();

    std::fs::write(place.path("flags"), format!("-load {library}")).unwrap();
    let response = format!("@{}", place.path("flags").display());
    let joined = |flag: &str| format!("{flag}{library}");
    let lines: &[&[&str]] = &[
        &["-load", &library],
        &[&joined("-fplugin=")],
        &[&joined("-fpass-plugin=")],
        &["-mllvm", &joined("-load=")],
        &[&response],
        &["-target-cpu", &response],
    ];
    for flags in lines {
        place.run_ok("failsketch-cc -O2 main.c twice.c -o prog");
        add_flags(&place, "prog", flags);
        let manifest = registered(&place);
        assert!(!evil.ran(), "{flags:?}");
        for module in &manifest.modules {
            let ModuleStatus::Untrackable { reason } = &module.status else {
                panic!("{flags:?}: {} is trackable", module.source);
            };
            assert!(reason.contains(flags[0]), "{reason}");
            assert!(reason.contains("compiler flags"), "{reason}");
        }
    }
}

#[test]
fn a_link_line_that_loads_code_is_not_run_again() {
    let place = Place::new(&[MAIN, TWICE]);
    let evil = Evil::build(&place);
    let library = evil.library.display().to_string();
    place.run_ok("failsketch-cc -O2 main.c twice.c -o plain");
    for (words, named) in [
        (vec![format!("-Wl,-plugin,{library}")], "-plugin"),
        (vec![format!("-Wl,-plugin={library}")], "-plugin"),
        (vec![format!("-fplugin={library}")], "-fplugin"),
        (vec![format!("-B{}", place.path("").display())], "-B"),
        (vec![format!("-fuse-ld={library}")], "-fuse-ld"),
        (vec!["-T".to_string(), "main.c".to_string()], "-T"),
    ] {
        std::fs::copy(place.path("plain"), place.path("prog")).unwrap();
        let given = ["main.c", "twice.c", "-o", "prog"].map(str::to_string);
        let record = LinkRecord {
            driver: Driver::C,
            directory: place.path("").display().to_string(),
            arguments: [given.to_vec(), words].concat(),
        };
        replace_section(&place, "prog", ".failsketch.link", &record.to_bytes());
        let manifest = registered(&place);
        let reason = manifest.link_refused.as_deref().unwrap_or_default();
        assert!(reason.contains(named), "{named}: {reason}");
        assert_eq!(manifest.link, None);
        // Modules are proven all the same: clones need no link line.
        assert_eq!(manifest.trackable_modules(), 2);
        let build = BuildStore::open(place.store()).load(&manifest.build_id);
        let objects = [place.path("a.o"), place.path("b.o")];
        let error = build_store::relink(&build.unwrap(), &objects, &[], &place.path("again"));
        let error = error.unwrap_err().to_string();
        assert!(error.contains(named), "{error}");
        assert!(!evil.ran(), "{named}");
    }
}
