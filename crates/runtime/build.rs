//! Compiles the crates of `crates/inprocess/` with the compiler that cargo uses, twice: one
//! object to link into tracked builds, one shared object to preload.
//!
//! Cargo compiles and clippy reads the same crates, but what cargo makes of them is used
//! by nobody: `no_std`, `panic=abort` and an object without any undefined symbol are
//! properties of these two artefacts only, and no profile of the workspace may change
//! them. Each artefact is one crate with the modules of all crates that it is made of, so
//! that the compiler sees which functions are used by no one else: crates that are
//! compiled apart export them, and link-time optimisation leaves out crates with
//! `no_builtins`, without which a loop becomes a call of `memset`.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
};

/// Built upon each other in this order; the last one decides what the artefact is.
const LINKABLE: [&str; 4] = ["layout", "base", "capture", "recorder"];
const PRELOAD: [&str; 4] = ["layout", "base", "capture", "preload"];

fn main() {
    println!("cargo::rerun-if-changed=../inprocess");
    println!("cargo::rerun-if-changed=build.rs");
    let target = variable("TARGET");
    assert!(
        target.starts_with("x86_64-") && target.contains("linux"),
        "the Failsketch runtime is written for x86-64 Linux, and the target is {target}"
    );
    let out = PathBuf::from(variable("OUT_DIR"));

    let object = out.join("failsketch-runtime.o");
    let mut compile = rustc(&target, "failsketch_runtime", &LINKABLE);
    compile
        .args(["--crate-type", "lib", "--emit"])
        .arg(format!("obj={}", object.display()));
    run(compile);

    let preload = out.join("failsketch-preload.so");
    let mut compile = rustc(&target, "failsketch_preload", &PRELOAD);
    compile
        .args(["--crate-type", "cdylib", "-C", "strip=symbols"])
        .args(["-C", "link-arg=-nostdlib", "-C", "link-arg=-nostartfiles"])
        // Before the constructors of any library (`crates/inprocess/capture/src/activate.rs`).
        .args(["-C", "link-arg=-Wl,-z,initfirst"])
        .arg("--emit")
        .arg(format!("link={}", preload.display()));
    if let Ok(linker) = env::var("RUSTC_LINKER") {
        compile.arg("-C").arg(format!("linker={linker}"));
    }
    run(compile);
}

fn rustc(target: &str, name: &str, crates: &[&str]) -> Command {
    let out = PathBuf::from(variable("OUT_DIR"));
    let root = out.join(format!("{name}.rs"));
    fs::write(&root, one_crate(crates))
        .unwrap_or_else(|error| panic!("{} could not be written: {error}", root.display()));
    let mut command = Command::new(variable("RUSTC"));
    command
        // Where it puts what it makes on the way: two builds of one checkout, for
        // tests and for release, must not find each other's.
        .current_dir(out)
        .arg(root)
        .args(["--crate-name", name, "--edition", "2024"])
        .args(["--target", target])
        .args(["-C", "panic=abort", "-C", "opt-level=2"])
        .args(["-C", "codegen-units=1", "-C", "relocation-model=pic"])
        .args(["-C", "overflow-checks=off", "-C", "debug-assertions=off"])
        .args(["-C", "embed-bitcode=no", "-C", "debuginfo=0"]);
    command
}

/// The root of one crate with the modules of several. Each of them goes by its name there,
/// too, so that what one crate says of another holds; and all modules are private, so that
/// nothing is exported but what says so itself.
fn one_crate(crates: &[&str]) -> String {
    // What one artefact does not use of a crate, the other one does.
    let mut root = String::from("#![no_std]\n#![no_builtins]\n#![allow(dead_code)]\n");
    for name in crates {
        let folder = Path::new(&variable("CARGO_MANIFEST_DIR"))
            .join("../inprocess")
            .join(name)
            .join("src");
        let path = folder.join("lib.rs");
        let text = fs::read_to_string(&path)
            .unwrap_or_else(|error| panic!("{} could not be read: {error}", path.display()));
        root += &format!("extern crate self as inprocess_{name};\n");
        let code = text
            .lines()
            .map(str::trim)
            .filter(|line| !line.is_empty() && !line.starts_with("//") && *line != "#![no_std]");
        for line in code {
            let line = line.strip_prefix("pub ").unwrap_or(line);
            if let Some(module) = line.strip_prefix("mod ").and_then(|l| l.strip_suffix(';')) {
                let alone = folder.join(format!("{module}.rs"));
                let file = if alone.exists() {
                    alone
                } else {
                    folder.join(module).join("mod.rs")
                };
                root += &format!("#[path = {file:?}]\nmod {module};\n");
            } else if line.starts_with("use ") && line.ends_with(';') {
                root += &format!("{line}\n");
            } else {
                panic!(
                    "{}: nothing but modules may stand there: {line}",
                    path.display()
                );
            }
        }
    }
    root
}

fn run(mut command: Command) {
    match command.status() {
        Ok(status) if status.success() => {}
        Ok(status) => panic!("compiling the in-process runtime failed ({status}): {command:?}"),
        Err(error) => panic!("the Rust compiler could not be started ({error}): {command:?}"),
    }
}

fn variable(name: &str) -> String {
    env::var(name).unwrap_or_else(|_| panic!("cargo sets {name} for build scripts"))
}
