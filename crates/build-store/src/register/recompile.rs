//! Compiling a module again from its bitcode, with the flags it was compiled with.
//!
//! `clang -cc1` is run directly: the driver would rewrite flags. Whatever
//! belonged to reading C (include paths, macros, dependency files) is dropped,
//! because the input is bitcode; whatever steers optimisation and code
//! generation stays. Use-list order is written out with optimised bitcode,
//! because code generation depends on it and bitcode does not keep it by itself.
//!
//! Optimising and generating code in two steps gives the same bytes as in one:
//! the instrumenter relies on it, since it puts hooks in between, and
//! `prove.rs` checks it for every registered module.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::link::record::Driver;
use crate::tools::{self, ToolError};

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
) -> Result<(), ToolError> {
    let mut command = Command::new(tools::driver_program(Driver::C));
    command.arg("-cc1").args(flags_for_bitcode(flags));
    command.args(match stage {
        Stage::Object => &["-emit-obj"][..],
        Stage::Optimise => &["-emit-llvm-bc", "-emit-llvm-uselists"],
        Stage::ObjectFromOptimised => &["-emit-obj", "-disable-llvm-passes"],
    });
    command.args(["-w", "-x", "ir"]);
    command.arg(absolute(input)).arg("-o").arg(absolute(output));
    // Profiles and lists named by relative paths are read from where the
    // module was compiled.
    if let Some(directory) = compilation_directory(flags).filter(|path| path.is_dir()) {
        command.current_dir(directory);
    }
    tools::run(&mut command, "clang-19").map(|_| ())
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

/// Dropped together with the word that follows.
const DROPPED_WITH_VALUE: &[&str] = &[
    "-D",
    "-I",
    "-MT",
    "-MQ",
    "-U",
    "-dependency-dot",
    "-dependency-file",
    "-diagnostic-log-file",
    "-dumpdir",
    "-header-include-file",
    "-idirafter",
    "-imacros",
    "-include",
    "-include-pch",
    "-internal-externc-isystem",
    "-internal-isystem",
    "-iprefix",
    "-iquote",
    "-isysroot",
    "-isystem",
    "-ivfsoverlay",
    "-iwithprefix",
    "-iwithprefixbefore",
    "-module-dependency-dir",
    "-o",
    "-opt-record-file",
    "-serialize-diagnostic-file",
    "-split-dwarf-file",
    "-split-dwarf-output",
    "-x",
];

/// Dropped alone, by their beginning.
const DROPPED_PREFIXES: &[&str] = &[
    "-D",
    "-I",
    "-U",
    "-coverage-notes-file",
    "-emit-",
    "-fembed-bitcode",
    "-fmodule-",
    "-fmodules",
    "-ftime-trace",
    "-stats-file",
];

const DROPPED: &[&str] = &[
    "-MG",
    "-MP",
    "-MV",
    "-cc1",
    "-module-file-deps",
    "-print-stats",
    "-sys-header-deps",
];

/// Kept with the word that follows, whatever that looks like (`-target-feature -xop`).
const KEPT_WITH_VALUE: &[&str] = &[
    "-add-plugin",
    "-ferror-limit",
    "-fmessage-length",
    "-load",
    "-main-file-name",
    "-mllvm",
    "-mmlir",
    "-mthread-model",
    "-plugin",
    "-resource-dir",
    "-target-abi",
    "-target-cpu",
    "-target-feature",
    "-target-linker-version",
    "-triple",
    "-tune-cpu",
];

/// The recorded flags, without those that only mean something for source text.
pub fn flags_for_bitcode(flags: &[String]) -> Vec<String> {
    let mut kept = Vec::with_capacity(flags.len());
    let mut rest = flags.iter();
    while let Some(flag) = rest.next() {
        if KEPT_WITH_VALUE.contains(&flag.as_str()) {
            kept.push(flag.clone());
            kept.extend(rest.next().cloned());
        } else if DROPPED_WITH_VALUE.contains(&flag.as_str()) {
            rest.next();
        } else if !DROPPED.contains(&flag.as_str())
            && !DROPPED_PREFIXES.iter().any(|start| flag.starts_with(start))
        {
            kept.push(flag.clone());
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_code_generation_flags_stay() {
        let flags: Vec<String> = "-cc1 -triple x86_64-pc-linux-gnu -emit-obj -D FOO=1 -Iinc \
             -target-feature -xop -mllvm -Inliner -internal-isystem /usr/include -O2 \
             -dependency-file a.d -MT a.o -sys-header-deps -fembed-bitcode=all \
             -main-file-name a.c -faddrsig"
            .split_whitespace()
            .map(str::to_string)
            .collect();
        assert_eq!(
            flags_for_bitcode(&flags).join(" "),
            "-triple x86_64-pc-linux-gnu -target-feature -xop -mllvm -Inliner -O2 \
             -main-file-name a.c -faddrsig"
        );
    }
}
