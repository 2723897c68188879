//! Reading a clang driver command line: which words are inputs, which are options.
//!
//! The wrapper needs it to know what a call produces, and relinking to know
//! which inputs of a link line to replace. Only the *shape* of options matters
//! here (does the next word belong to it?), so this is a list of the options
//! that take a separate value, not a copy of clang's option table.
//!
//! Deliberately absent: Darwin-only, CUDA and `cl`-style options.

/// One argument of the driver: an input, or an option with the value that belongs to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DriverArgument {
    /// A file to compile, assemble or link (`-` is standard input).
    Input(String),
    /// An option. `value` is set for options that take a separate value, and
    /// for the joined forms of `-o`, `-x`, `-l` and `-L`.
    Option { name: String, value: Option<String> },
    /// The last word is an option whose value is missing; clang will refuse it.
    MissingValue(String),
    /// `--`: all that follows is input.
    EndOfOptions,
}

impl DriverArgument {
    fn flag(word: &str) -> Self {
        DriverArgument::Option {
            name: word.to_string(),
            value: None,
        }
    }

    /// The words that spell this argument, options with values as two words.
    pub fn words(&self) -> Vec<String> {
        match self {
            DriverArgument::Input(path) => vec![path.clone()],
            DriverArgument::Option { name, value } => {
                let mut words = vec![name.clone()];
                words.extend(value.clone());
                words
            }
            DriverArgument::MissingValue(name) => vec![name.clone()],
            DriverArgument::EndOfOptions => vec!["--".to_string()],
        }
    }
}

/// Options whose value is the next word when they stand alone.
const WITH_SEPARATE_VALUE: &[&str] = &[
    "-A",
    "-B",
    "-D",
    "-F",
    "-G",
    "-I",
    "-L",
    "-MF",
    "-MJ",
    "-MQ",
    "-MT",
    "-T",
    "-Tbss",
    "-Tdata",
    "-Ttext",
    "-U",
    "-Xanalyzer",
    "-Xassembler",
    "-Xclang",
    "-Xlinker",
    "-Xopenmp-target",
    "-Xpreprocessor",
    "-arch",
    "-aux-target-cpu",
    "-cxx-isystem",
    "-dumpdir",
    "-e",
    "-gcc-install-dir",
    "-h",
    "-idirafter",
    "-imacros",
    "-imultilib",
    "-include",
    "-include-pch",
    "-iprefix",
    "-iquote",
    "-isysroot",
    "-isystem",
    "-isystem-after",
    "-ivfsoverlay",
    "-iwithprefix",
    "-iwithprefixbefore",
    "-iwithsysroot",
    "-l",
    "-mllvm",
    "-mmlir",
    "-module-dependency-dir",
    "-mthread-model",
    "-o",
    "-resource-dir",
    "-rpath",
    "-serialize-diagnostics",
    "-stdlib++-isystem",
    "-target",
    "-u",
    "-working-directory",
    "-x",
    "-z",
    "--assert",
    "--config",
    "--define-macro",
    "--for-linker",
    "--imacros",
    "--include",
    "--include-directory",
    "--include-directory-after",
    "--include-prefix",
    "--include-with-prefix",
    "--language",
    "--library-directory",
    "--output",
    "--param",
    "--prefix",
    "--serialize-diagnostics",
    "--sysroot",
    "--undefine-macro",
];

/// Splits a command line (without the program's name) into inputs and options.
pub fn parse(words: &[String]) -> Vec<DriverArgument> {
    let mut arguments = Vec::with_capacity(words.len());
    let mut rest = words.iter();
    while let Some(word) = rest.next() {
        if word == "--" {
            arguments.push(DriverArgument::EndOfOptions);
            arguments.extend(rest.by_ref().cloned().map(DriverArgument::Input));
        } else if word == "-" || !word.starts_with('-') {
            arguments.push(DriverArgument::Input(word.clone()));
        } else if WITH_SEPARATE_VALUE.contains(&word.as_str()) {
            arguments.push(match rest.next() {
                Some(value) => DriverArgument::Option {
                    name: canonical(word).to_string(),
                    value: Some(value.clone()),
                },
                None => DriverArgument::MissingValue(word.clone()),
            });
        } else {
            arguments.push(joined(word));
        }
    }
    arguments
}

fn canonical(name: &str) -> &str {
    match name {
        "--output" => "-o",
        "--language" => "-x",
        "--library-directory" => "-L",
        "--for-linker" => "-Xlinker",
        other => other,
    }
}

fn joined(word: &str) -> DriverArgument {
    for prefix in ["--output=", "--language=", "--for-linker="] {
        if let Some(value) = word.strip_prefix(prefix) {
            return DriverArgument::Option {
                name: canonical(&prefix[..prefix.len() - 1]).to_string(),
                value: Some(value.to_string()),
            };
        }
    }
    for prefix in ["-o", "-x", "-l", "-L"] {
        match word.strip_prefix(prefix) {
            // `-objcmt-…` are flags of their own.
            Some(value) if !value.starts_with("bjc") => {
                return DriverArgument::Option {
                    name: prefix.to_string(),
                    value: Some(value.to_string()),
                };
            }
            _ => {}
        }
    }
    DriverArgument::flag(word)
}

/// What an input is, by `-x` and by the end of its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InputKind {
    /// C, C++, Objective-C or preprocessed forms of them.
    Source,
    /// A header to be precompiled.
    Header,
    /// Assembly, to be preprocessed or not.
    Assembly,
    /// LLVM IR as text or bitcode.
    Ir,
    /// Anything that goes to the linker.
    Linked,
}

/// The kind of `path` under the language set by the last `-x` (`None` for `-x none`).
pub fn input_kind(path: &str, language: Option<&str>) -> InputKind {
    if let Some(language) = language {
        return match language {
            "assembler" | "assembler-with-cpp" => InputKind::Assembly,
            "ir" => InputKind::Ir,
            other if other.ends_with("-header") || other.ends_with("-header-unit") => {
                InputKind::Header
            }
            _ => InputKind::Source,
        };
    }
    let name = path.rsplit('/').next().unwrap_or(path);
    match name.rsplit_once('.').map(|(_, extension)| extension) {
        Some("c" | "i" | "ii" | "C" | "cc" | "CC" | "cp" | "cpp" | "CPP" | "cxx" | "CXX")
        | Some("c++" | "C++" | "m" | "M" | "mi" | "mm" | "mii" | "cppm" | "ixx" | "ccm") => {
            InputKind::Source
        }
        Some("h" | "H" | "hh" | "hp" | "hpp" | "hxx") => InputKind::Header,
        Some("s" | "S" | "sx" | "asm") => InputKind::Assembly,
        Some("ll" | "bc") => InputKind::Ir,
        _ if name == "-" => InputKind::Source,
        _ => InputKind::Linked,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse_line(line: &str) -> Vec<DriverArgument> {
        parse(&line.split(' ').map(str::to_string).collect::<Vec<_>>())
    }

    fn option(name: &str, value: Option<&str>) -> DriverArgument {
        DriverArgument::Option {
            name: name.to_string(),
            value: value.map(str::to_string),
        }
    }

    #[test]
    fn values_are_not_inputs() {
        assert_eq!(
            parse_line("-include a.h -Xclang b.c -ofoo c.c -lm -MF d.d"),
            vec![
                option("-include", Some("a.h")),
                option("-Xclang", Some("b.c")),
                option("-o", Some("foo")),
                DriverArgument::Input("c.c".to_string()),
                option("-l", Some("m")),
                option("-MF", Some("d.d")),
            ]
        );
    }

    #[test]
    fn a_missing_value_is_seen() {
        assert_eq!(
            parse_line("a.c -o"),
            vec![
                DriverArgument::Input("a.c".to_string()),
                DriverArgument::MissingValue("-o".to_string())
            ]
        );
    }

    #[test]
    fn everything_after_two_dashes_is_input() {
        assert_eq!(
            parse_line("-c -- -odd.c"),
            vec![
                option("-c", None),
                DriverArgument::EndOfOptions,
                DriverArgument::Input("-odd.c".to_string()),
            ]
        );
    }

    #[test]
    fn kinds_follow_language_before_name() {
        assert_eq!(input_kind("a.c", None), InputKind::Source);
        assert_eq!(input_kind("dir.c/a.o", None), InputKind::Linked);
        assert_eq!(input_kind("a.txt", Some("c++")), InputKind::Source);
        assert_eq!(
            input_kind("a.c", Some("assembler-with-cpp")),
            InputKind::Assembly
        );
        assert_eq!(input_kind("a.h", None), InputKind::Header);
    }
}
