//! Compiles `crates/inprocess/` with the compiler that cargo uses, twice: one object to
//! link into tracked builds, one shared object to preload into untouched ones.
//!
//! Not as cargo crates: `no_std`, `panic=abort` and an object without any
//! undefined symbol are properties of these two artefacts only, and no profile
//! of the workspace may change them.

use std::{
    env,
    path::{Path, PathBuf},
    process::Command,
};

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
    let mut compile = rustc(&target);
    compile
        .args(["--crate-name", "failsketch_runtime", "--crate-type", "lib"])
        .arg("--emit")
        .arg(format!("obj={}", object.display()));
    run(compile);

    let preload = out.join("failsketch-preload.so");
    let mut compile = rustc(&target);
    compile
        .args([
            "--crate-name",
            "failsketch_preload",
            "--crate-type",
            "cdylib",
        ])
        .args(["--cfg", "failsketch_preload", "-C", "strip=symbols"])
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

fn rustc(target: &str) -> Command {
    let mut command = Command::new(variable("RUSTC"));
    let source = Path::new(&variable("CARGO_MANIFEST_DIR")).join("../inprocess/lib.rs");
    command
        // Where it puts what it makes on the way: two builds of one checkout, for
        // tests and for release, must not find each other's.
        .current_dir(variable("OUT_DIR"))
        .arg(source)
        .args(["--edition", "2024", "--target", target])
        .args(["--check-cfg", "cfg(failsketch_preload)"])
        .args(["-C", "panic=abort", "-C", "opt-level=2"])
        .args(["-C", "codegen-units=1", "-C", "relocation-model=pic"])
        .args(["-C", "overflow-checks=off", "-C", "debug-assertions=off"])
        .args(["-C", "embed-bitcode=no", "-C", "debuginfo=0"]);
    command
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
