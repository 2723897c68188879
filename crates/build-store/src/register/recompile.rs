//! Compiling a module again from its bitcode, with the flags it was compiled with.
//!
//! `clang -cc1` is run directly: the driver would rewrite flags. Which of the
//! recorded flags it gets is decided in `flags.rs`. Use-list order is written out
//! with optimised bitcode, because code generation depends on it and bitcode
//! does not keep it by itself.
//!
//! Optimising and generating code in two steps gives the same bytes as in one:
//! the instrumenter relies on it, since it puts hooks in between, and
//! `prove.rs` checks it for every registered module.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use crate::link::record::Driver;
use crate::register::flags;
use crate::sandbox::Reach;
use crate::tools::{self, ToolError, Tools};

/// What to make of a module's bitcode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Embedded bitcode to an object, as the original compilation did.
    Object,
    /// Embedded bitcode to optimised bitcode, the input of code generation.
    Optimise,
    /// Optimised bitcode to an object, without optimising again.
    ObjectFromOptimised,
}

/// Runs the compiler on `input` for `stage`; `flags` are the recorded ones, unfiltered.
pub fn compile(
    flags: &[String],
    stage: Stage,
    input: &Path,
    output: &Path,
    tools: &Tools,
) -> Result<(), ToolError> {
    let mut arguments: Vec<OsString> = vec!["-cc1".into()];
    arguments.extend(flags::for_bitcode(flags)?.into_iter().map(OsString::from));
    let stage = match stage {
        Stage::Object => &["-emit-obj"][..],
        Stage::Optimise => &["-emit-llvm-bc", "-emit-llvm-uselists"],
        Stage::ObjectFromOptimised => &["-emit-obj", "-disable-llvm-passes"],
    };
    arguments.extend(stage.iter().map(OsString::from));
    arguments.extend(["-w", "-x", "ir"].map(OsString::from));
    let (input, output) = (absolute(input), absolute(output));
    let folder = output.parent().unwrap_or(Path::new("/"));
    let reach = Reach::new(folder, &[&input]);
    arguments.extend([input.into(), "-o".into(), output.clone().into()]);
    let clang = tools::driver_program(Driver::C);
    tools.run(&clang, &arguments, "clang-19", &reach)
}

fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf())
}

/// The directory a module was compiled in, as its flags state it.
pub fn compilation_directory(flags: &[String]) -> Option<PathBuf> {
    flags
        .iter()
        .find_map(|flag| flag.strip_prefix("-fdebug-compilation-dir="))
        .map(PathBuf::from)
}

/// The last component of the module's source path, as its flags state it.
pub fn main_file_name(flags: &[String]) -> Option<&str> {
    let at = flags.iter().position(|flag| flag == "-main-file-name")?;
    flags.get(at + 1).map(String::as_str)
}
