//! What a compiler call does: whether it compiles or links, what it writes, and
//! what to add to it. Pure.
//!
//! Whatever is not understood goes to clang as it is: a build that works
//! without bitcode in one object is better than a build that fails.

use std::path::{Path, PathBuf};

use build_store::link::driver_args::{DriverArgument, InputKind, input_kind, parse};

/// A call that needs something done besides running clang.
#[derive(Debug, PartialEq, Eq)]
pub struct PlannedCall {
    /// Arguments to add, and before which of the given ones.
    pub additions: Vec<&'static str>,
    pub insert_at: usize,
    /// Files that the call may write and that may hold sections to rename.
    pub outputs: Vec<PathBuf>,
    /// True if it runs the linker.
    pub links: bool,
}

/// Options that stop before an object is made, only print, or make something else.
fn leaves_no_object(name: &str) -> bool {
    const EXACT: &[&str] = &[
        "-E",
        "-S",
        "-M",
        "-MM",
        "-fsyntax-only",
        "-###",
        "--version",
        "--help",
        "-help",
        "--help-hidden",
        "-emit-llvm",
        "-emit-ast",
        "--analyze",
        "--precompile",
        "--preprocess",
        "--assemble",
        "-verify-pch",
        "-extract-api",
        "-emit-interface-stubs",
        "-rewrite-objc",
        "--print-supported-cpus",
        "--offload-device-only",
        // Other machines: nothing of ours could read the result.
        "-m32",
        "-mx32",
        "-m16",
    ];
    const PREFIXES: &[&str] = &[
        "-dump",
        "-print-",
        "--print-",
        "--help=",
        "--target=",
        "-fmodule-",
        "-fembed-bitcode",
    ];
    // `--target=x86_64-…` is our own machine.
    let own_target = name.starts_with("--target=x86_64");
    EXACT.contains(&name) || (PREFIXES.iter().any(|prefix| name.starts_with(prefix)) && !own_target)
}

/// Plans a call: `given` are the words as the user wrote them, `expanded` the
/// same with response files read. `None` means: run clang on `given`, no more.
pub fn plan_call(given: &[String], expanded: &[String]) -> Option<PlannedCall> {
    let mut scan = Scan::default();
    for argument in parse(expanded) {
        scan.argument(argument)?;
    }
    let (compiles, inputs) = (scan.sources > 0, scan.sources + scan.linked);
    if inputs == 0 || scan.lto || (scan.compile_only && !compiles) {
        return None;
    }
    // With debug info, clang-19 warns about the very files it saves.
    if scan.save_temps && compiles {
        return None;
    }
    if scan.output.as_deref() == Some("-") {
        return None;
    }
    // Past a `--` ours would be inputs; inside a response file it cannot be found.
    let insert_at = match given.iter().position(|word| word == "--") {
        Some(at) => at,
        None if scan.options_end => return None,
        None => given.len(),
    };
    Some(PlannedCall {
        additions: scan.additions(compiles),
        insert_at,
        outputs: scan.outputs(),
        links: !scan.compile_only,
    })
}

#[derive(Default)]
struct Scan {
    language: Option<String>,
    output: Option<String>,
    compile_only: bool,
    lto: bool,
    save_temps: bool,
    full_debug_info: bool,
    options_end: bool,
    sources: usize,
    linked: usize,
    /// Inputs that yield an object in the working directory under `-c`.
    stems: Vec<PathBuf>,
}

impl Scan {
    /// Takes one argument; `None` ends the scan: the call is not for us.
    fn argument(&mut self, argument: DriverArgument) -> Option<()> {
        match argument {
            DriverArgument::MissingValue(_) => return None,
            DriverArgument::EndOfOptions => self.options_end = true,
            DriverArgument::Input(path) => self.input(&path)?,
            DriverArgument::Option { name, value } => self.option(&name, value.as_deref())?,
        }
        Some(())
    }

    fn option(&mut self, name: &str, value: Option<&str>) -> Option<()> {
        match (name, value) {
            ("-o", Some(file)) => self.output = Some(file.to_string()),
            ("-x", Some("none")) => self.language = None,
            ("-x", Some(language)) => self.language = Some(language.to_string()),
            ("-target", Some(target)) if !target.starts_with("x86_64") => return None,
            ("-Xclang", Some(flag)) if leaves_no_object(flag) => return None,
            ("-c" | "--compile", _) => self.compile_only = true,
            ("-fno-lto", _) => self.lto = false,
            ("-save-temps" | "--save-temps", _) => self.save_temps = true,
            _ if name.starts_with("-flto") => self.lto = true,
            _ if name.starts_with("-save-temps=") || name.starts_with("--save-temps=") => {
                self.save_temps = true;
            }
            _ if leaves_no_object(name) => return None,
            _ => {
                if let Some(full) = debug_level_is_full(name) {
                    self.full_debug_info = full;
                }
            }
        }
        Some(())
    }

    fn input(&mut self, path: &str) -> Option<()> {
        match input_kind(path, self.language.as_deref()) {
            // A precompiled header, with nothing to embed in it.
            InputKind::Header => return None,
            InputKind::Linked => self.linked += 1,
            InputKind::Source | InputKind::Assembly | InputKind::Ir => {
                self.sources += 1;
                let name = Path::new(path).file_name().unwrap_or("-".as_ref());
                self.stems.push(Path::new(name).with_extension("o"));
            }
        }
        Some(())
    }

    fn additions(&self, compiles: bool) -> Vec<&'static str> {
        if !compiles {
            return Vec::new();
        }
        // The brackets keep assembly in the same call from warnings about
        // options it does not use.
        let mut additions = vec!["--start-no-unused-arguments"];
        if !self.full_debug_info {
            additions.push("-g");
        }
        additions.extend([
            "-Xclang",
            "-fembed-bitcode=all",
            "--end-no-unused-arguments",
        ]);
        additions
    }

    fn outputs(&self) -> Vec<PathBuf> {
        match &self.output {
            Some(file) => vec![PathBuf::from(file)],
            None if self.compile_only => self.stems.clone(),
            None => vec![PathBuf::from("a.out")],
        }
    }
}

/// For an option that sets how much debug info is made: is it all of it?
fn debug_level_is_full(name: &str) -> Option<bool> {
    match name {
        "-g0"
        | "-g1"
        | "-ggdb0"
        | "-ggdb1"
        | "-gmlt"
        | "-gline-tables-only"
        | "-gline-directives-only" => Some(false),
        "-g" | "-g2" | "-g3" | "-ggdb" | "-ggdb2" | "-ggdb3" | "-glldb" | "-gdbx" | "-gsce"
        | "-gdwarf" | "-gfull" | "--debug" => Some(true),
        _ if name.starts_with("-gdwarf-") && name.len() == "-gdwarf-5".len() => Some(true),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(line: &str) -> Option<PlannedCall> {
        let words: Vec<String> = line.split_whitespace().map(str::to_string).collect();
        plan_call(&words, &words)
    }

    fn outputs(line: &str) -> Vec<String> {
        plan(line)
            .unwrap()
            .outputs
            .iter()
            .map(|path| path.display().to_string())
            .collect()
    }

    #[test]
    fn calls_that_make_no_object_are_left_alone() {
        for line in [
            "-E a.c",
            "-S a.c",
            "-M a.c",
            "-MM a.c -MF x",
            "-fsyntax-only a.c",
            "-### a.c",
            "--version",
            "-v",
            "-dumpmachine",
            "-print-prog-name=ld",
            "-c -emit-llvm a.c",
            "-c a.c -o -",
            "-flto -c a.c",
            "-fno-lto -flto=thin a.c",
            "-m32 -c a.c",
            "-save-temps a.c -o p",
            "-target aarch64-linux-gnu -c a.c",
            "a.h",
            "-c a.c -o",
            "",
        ] {
            assert_eq!(plan(line), None, "{line}");
        }
    }

    #[test]
    fn outputs_are_found() {
        assert_eq!(outputs("-c a.c dir/b.cc"), ["a.o", "b.o"]);
        assert_eq!(outputs("-c a.c -oout.lo"), ["out.lo"]);
        assert_eq!(outputs("a.c -lm"), ["a.out"]);
        assert_eq!(outputs("x.o --output=prog"), ["prog"]);
        assert_eq!(outputs("-x c -c -"), ["-.o"]);
        assert_eq!(outputs("-flto -fno-lto -c a.c"), ["a.o"]);
        assert_eq!(outputs("-save-temps a.o -o p"), ["p"]);
    }

    #[test]
    fn debug_info_is_raised_never_lowered() {
        let adds_g = |line: &str| plan(line).unwrap().additions.contains(&"-g");
        assert!(adds_g("-c a.c"));
        assert!(adds_g("-g -g0 -c a.c"));
        assert!(adds_g("-gline-tables-only -c a.c"));
        assert!(adds_g("-gsplit-dwarf -c a.c"));
        assert!(!adds_g("-g3 -c a.c"));
        assert!(!adds_g("-g0 -gdwarf-4 -c a.c"));
        assert!(!adds_g("-ggdb -gz -c a.c"));
    }

    #[test]
    fn a_link_without_sources_gets_no_additions() {
        let call = plan("a.o b.o -o p").unwrap();
        assert!(call.links && call.additions.is_empty());
        assert!(!plan("-c a.c").unwrap().links);
    }

    #[test]
    fn additions_come_before_two_dashes() {
        assert_eq!(plan("-c -- a.c").unwrap().insert_at, 1);
        assert_eq!(plan("-c a.c").unwrap().insert_at, 2);
    }
}
