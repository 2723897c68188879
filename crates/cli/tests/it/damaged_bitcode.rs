//! Bitcode that takes LLVM's reader down takes nothing else down: the command
//! ends with one sentence that names the module, and the store stays as it was.
//!
//! A graph that the store cannot give back whole is made again.
//!
//! The damage is real bitcode of the wrapper with a few bits flipped, by a fixed
//! generator. A module of another address has no stored graph, so that `slice`
//! reads it again, in a child; no compiler runs, and many can be tried.

use crate::support;
use crate::support::{FAILSKETCH, Place};
use build_store::BuildStore;
use sha2::{Digest, Sha256};
use std::path::Path;
use std::process::{Command, Output};

const SOURCE: (&str, &str) = (
    "main.c",
    "#include <stdlib.h>\nstruct pair { int left, right; };\nstatic struct pair *made;\n\
     static int choose(struct pair *p, int n) {\n  switch (n) {\n  case 1: return p->left;\n\
     case 2: return p->right;\n  default: return 0;\n  }\n}\n\
     int main(int argc, char **argv) {\n  made = malloc(sizeof *made);\n  made->left = argc;\n\
     made->right = argv[0][0];\n  return choose(made, argc) / made->left;\n}\n",
);
const TRIED: u64 = 120;

struct Noise(u64);

impl Noise {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// One to four bits, behind the magic.
    fn damage(&mut self, bytes: &mut [u8]) {
        for _ in 0..=self.next() % 4 {
            let bit = self.next() as usize % ((bytes.len() - 4) * 8) + 32;
            bytes[bit / 8] ^= 1 << (bit % 8);
        }
    }
}

fn slice(store: &Path, build: &str) -> Output {
    Command::new(FAILSKETCH)
        .args(["slice", "--build", build, "--at", "main.c:15", "--store"])
        .arg(store)
        .output()
        .expect("the command starts")
}

fn sentence(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let said = String::from_utf8(output.stderr.clone()).expect("text");
    assert_eq!(said.lines().count(), 1, "{said}");
    said
}

#[test]
fn damaged_bitcode_is_a_sentence_and_leaves_the_store_as_it_was() {
    let place = Place::new(&[SOURCE]);
    place.run_ok("failsketch-cc -O2 main.c -o program");
    assert!(place.register("program").status.success());
    let build = BuildStore::open(place.store()).list().unwrap().remove(0);
    let id = build.build_id.0.clone();
    assert!(slice(&place.store(), &id).status.success());
    let graphs = || {
        std::fs::read_dir(place.store().join("graphs"))
            .unwrap()
            .count()
    };
    assert_eq!(graphs(), 1, "registration kept the graph");

    let manifest = place.store().join(format!("builds/{id}.json"));
    let text = std::fs::read_to_string(&manifest).unwrap();
    let old = &build.modules[0].bitcode.0;
    let good = std::fs::read(place.store().join("blobs").join(old)).unwrap();
    let mut noise = Noise(0x9e37_79b9_7f4a_7c15);
    let mut fatal = None;
    let mut deaths = 0;
    let mut refusals = 0;
    for _ in 0..TRIED {
        let mut bad = good.clone();
        noise.damage(&mut bad);
        let new = hex(&Sha256::digest(&bad));
        std::fs::write(place.store().join("blobs").join(&new), &bad).unwrap();
        std::fs::write(&manifest, text.replace(old, &new)).unwrap();
        let before = graphs();
        let output = slice(&place.store(), &id);
        if output.status.success() {
            continue;
        }
        let said = sentence(&output);
        if said.contains("LLVM's reader") {
            assert!(said.contains("main.c is damaged"), "{said}");
            assert!(said.contains("failsketch-cc"), "{said}");
            deaths += 1;
            fatal = Some(bad);
        } else {
            refusals += 1;
        }
        assert_eq!(graphs(), before, "nothing is kept of it: {said}");
    }
    assert!(refusals > 0, "LLVM refused none of {TRIED}");
    let fatal = fatal.unwrap_or_else(|| panic!("none of {TRIED} was fatal"));
    eprintln!("{deaths} of {TRIED} damaged modules ended the reader, {refusals} were refused");

    // The same damage in the program itself, before it is registered.
    let mut program = std::fs::read(place.path("program")).unwrap();
    let windows = program.windows(good.len());
    let at = windows.into_iter().position(|part| part == good).unwrap();
    program[at..at + good.len()].copy_from_slice(&fatal);
    std::fs::write(place.path("program"), program).unwrap();
    let fresh = place.path("fresh-store");
    let output = Command::new(FAILSKETCH)
        .arg("register")
        .arg(place.path("program"))
        .arg("--store")
        .arg(&fresh)
        .output()
        .unwrap();
    let said = sentence(&output);
    assert!(said.contains("main.c is damaged"), "{said}");
    assert!(!fresh.exists(), "nothing is half-written");
}

#[test]
fn a_graph_that_is_damaged_cut_off_old_or_gone_is_made_again() {
    let place = Place::new(&[SOURCE]);
    place.run_ok("failsketch-cc -O2 main.c -o program");
    assert!(place.register("program").status.success());
    let id = BuildStore::open(place.store()).list().unwrap().remove(0);
    let id = id.build_id.0;
    let expected = slice(&place.store(), &id);
    assert!(expected.status.success());
    assert!(!expected.stdout.is_empty());
    let folder = place.store().join("graphs");
    let graph = std::fs::read_dir(&folder).unwrap().next().unwrap();
    let graph = graph.unwrap().path();
    let whole = std::fs::read(&graph).unwrap();
    let mut flipped = whole.clone();
    flipped[whole.len() / 2] ^= 4;
    // Whole, at the right address, but in the format of the last version.
    let body = include_bytes!("../../../../slicer/tests/data/graph-format-1.bin");
    let mut old = b"failsketch graph".to_vec();
    old.extend(Sha256::digest(body));
    old.extend(body);
    let bad: [Option<&[u8]>; 6] = [
        None,
        Some(&old),
        Some(b""),
        Some(b"something else"),
        Some(&whole[..whole.len() - 1]),
        Some(&flipped),
    ];
    for bytes in bad {
        match bytes {
            Some(bytes) => std::fs::write(&graph, bytes).unwrap(),
            None => std::fs::remove_file(&graph).unwrap(),
        }
        let output = slice(&place.store(), &id);
        assert!(output.status.success(), "{output:?}");
        assert_eq!(output.stdout, expected.stdout);
        assert_eq!(std::fs::read(&graph).unwrap(), whole, "it is kept again");
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Puts other bitcode into `program`.
fn replace_bitcode(place: &Place, program: &str, bitcode: &[u8]) {
    std::fs::write(place.path("section"), bitcode).unwrap();
    place.run_ok(&format!(
        "objcopy --update-section .failsketch.bc=section {program} {program}"
    ));
}

/// The same program one line further down: its code is the same, and all its lines are wrong.
#[test]
fn bitcode_of_other_lines_is_no_proof() {
    let text = SOURCE.1;
    let place = Place::new(&[SOURCE]);
    place.run_ok("failsketch-cc -O2 main.c -o program");
    std::fs::write(place.path("main.c"), format!("\n{text}")).unwrap();
    place.run_ok("failsketch-cc -O2 main.c -o moved");
    let code = |name| support::text_sections(&place.read(name));
    assert_eq!(code("program"), code("moved"));
    let moved = build_store::register::embedded::embedded_modules(&place.read("moved")).unwrap();
    replace_bitcode(&place, "program", &moved[0].bitcode);
    assert!(place.register("program").status.success());
    let build = BuildStore::open(place.store()).list().unwrap().remove(0);
    let reason = format!("{:?}", build.modules[0].status);
    assert!(
        reason.contains("the lines of function") && reason.contains("differ"),
        "{reason}"
    );
}

/// Lines of what surely has code: loads, stores, divisions and calls, in their order.
fn lines_in(place: &Place, bitcode: &[u8]) -> Vec<String> {
    std::fs::write(place.path("it.bc"), bitcode).unwrap();
    let text = place.run_ok("llvm-dis-19 it.bc -o -");
    let has_code = |line: &&str| {
        let words = [" load ", " store ", " sdiv ", "call ptr @malloc"];
        words
            .iter()
            .any(|word| format!(" {}", line.trim()).contains(word))
    };
    let number = |line: &str| {
        let (_, rest) = line.rsplit_once("!dbg ")?;
        rest.split([',', ' ']).next().map(str::to_string)
    };
    let location = |name: String| {
        let start = format!("{name} = ");
        let line = text.lines().find(|line| line.starts_with(&start));
        line.map(|line| line[start.len()..].to_string())
    };
    let found = text.lines().filter(has_code);
    let found = found.filter_map(number).filter_map(location);
    // `!DILocation(line: 13, column: 3, scope: !28)`: scopes are numbered anew.
    found
        .map(|it| it.split(", scope").next().unwrap_or_default().to_string())
        .collect()
}

/// One flipped bit in many is in nothing that code or lines are made of (names of
/// metadata kinds, the symbol index, attributes without effect). What is proven all the
/// same has the code and the lines of the binary.
#[test]
fn a_flipped_bit_is_refused_or_changes_neither_code_nor_lines() {
    let place = Place::new(&[SOURCE]);
    place.run_ok("failsketch-cc -O0 main.c -o program");
    let good = build_store::register::embedded::embedded_modules(&place.read("program")).unwrap();
    let good = good[0].bitcode.clone();
    let expected = lines_in(&place, &good);
    assert!(expected.len() > 10, "{expected:?}");
    let mut noise = Noise(0x2545_f491_4f6c_dd1d);
    let (mut proven, mut refused) = (0, 0);
    for _ in 0..40 {
        let mut bad = good.clone();
        let bit = noise.next() as usize % ((bad.len() - 4) * 8) + 32;
        bad[bit / 8] ^= 1 << (bit % 8);
        replace_bitcode(&place, "program", &bad);
        let output = place.register("program");
        let store = BuildStore::open(place.store());
        if output.status.success() && store.list().unwrap().remove(0).trackable_modules() == 1 {
            assert_eq!(lines_in(&place, &bad), expected, "bit {bit}");
            proven += 1;
        } else {
            refused += 1;
        }
    }
    eprintln!("{proven} of 40 flipped bits were proven, {refused} refused");
    assert!(refused > 0 && proven > 0);
}
