//! Compiles the annotated programs just as the wrapper embeds them: optimising
//! flags, debug info, and the IR from before the first pass.

pub mod corpus;
use sketch_model::{BuildId, SourceLocation};
use slicer::{ModuleInput, Program};
use std::path::{Path, PathBuf};
use std::process::Command;

#[allow(dead_code)]
pub fn programs_folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/programs/slice")
}

/// Bitcode of one source file; further flags come last.
pub fn compile(source: &Path, flags: &[&str]) -> Vec<u8> {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let output = folder.path().join("module.bc");
    let is_cpp = source.extension().is_some_and(|e| e == "cpp");
    let status = Command::new(if is_cpp { "clang++-19" } else { "clang-19" })
        .args(["-O2", "-g", "-Xclang", "-disable-llvm-passes"])
        .args(["-emit-llvm", "-c", "-w", "-o"])
        .arg(&output)
        .arg(source)
        .args(flags)
        .status()
        .expect("clang-19 runs");
    assert!(status.success(), "clang-19 compiles {}", source.display());
    std::fs::read(&output).expect("clang-19 wrote bitcode")
}

pub fn build_id() -> BuildId {
    BuildId("0123".to_owned())
}

pub fn load(bitcode: &[u8]) -> Program {
    let input = ModuleInput {
        name: "module",
        bitcode,
    };
    Program::load(build_id(), &[input]).expect("the program loads")
}

pub fn load_file(source: &Path) -> Program {
    load(&compile(source, &[]))
}

/// Writes a program of a test's own and loads it.
#[allow(dead_code)]
pub fn load_text(text: &str) -> Program {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let source = folder.path().join("program.c");
    std::fs::write(&source, text).expect("the source is written");
    load_file(&source)
}

#[allow(dead_code)]
pub fn no_source(_: &SourceLocation) -> Option<String> {
    None
}
