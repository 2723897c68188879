//! Which words of a recorded link line are given to the linker again.
//!
//! Like `flags.rs`, for the words of the driver and of the linker itself
//! (`-Wl,`, `-Xlinker`): a list of what is allowed. Linkers load code, too
//! (`-plugin`), and linker scripts read and write files, so neither is on it. A
//! line with another word is not linked again; the manifest names the word.
//!
//! Words of the linker come one at a time and may belong together
//! (`-Wl,-z -Wl,now`). An option is passed on only together with its value, so
//! that nothing can come between them.

use crate::link::driver_args::{self, DriverArgument};
use crate::manifest::LinkItem;
use crate::register::flags::Shape::{Alone, Joined, Value};
use crate::register::flags::Text::{self, Any, Machine, Plain};
use crate::register::flags::{self, RefusedFlag, Row, discard, keep};

const TOOL: &str = "the linker";

fn refused(word: impl Into<String>) -> RefusedFlag {
    RefusedFlag(word.into(), TOOL)
}

/// What to pass on of a driver's option; `-l`, `-L`, `-Wl,` and `-Xlinker` are not asked here.
pub fn driver_option(name: &str, value: Option<&str>) -> Result<Vec<String>, RefusedFlag> {
    if name == "-Xclang" {
        // It has nothing to compile here; only what it would load matters.
        let word = value.unwrap_or_default().to_string();
        return flags::for_bitcode(std::slice::from_ref(&word))
            .map(|_| Vec::new())
            .map_err(|_| refused(format!("-Xclang {word}")));
    }
    let words: Vec<String> = [name]
        .into_iter()
        .chain(value)
        .map(str::to_string)
        .collect();
    flags::select(&words, DRIVER_FLAGS, TOOL)
}

/// The library that `-lNAME` means, as a word.
pub fn library(name: &str) -> Result<String, RefusedFlag> {
    let word = format!("-l{name}");
    let is_name = !name.is_empty() && Plain.admits(name);
    is_name.then(|| word.clone()).ok_or_else(|| refused(word))
}

/// Options of the compiler driver on a link line.
#[rustfmt::skip]
const DRIVER_FLAGS: &[Row] = &[
    keep(Alone, &[
        "-pthread", "-static", "-static-pie", "-shared", "-pie", "-no-pie", "-nopie", "-rdynamic", "-nostdlib",
        "-nostdlib++", "-nodefaultlibs", "-nostartfiles", "-nolibc", "-static-libgcc", "-static-libstdc++",
        "-shared-libgcc", "-pg", "-p", "-static-libsan", "-shared-libsan", "-s", "-fopenmp", "-fno-openmp", "-fuse-ld=bfd",
        "-fuse-ld=gold", "-fuse-ld=lld", "-fuse-ld=lld-19", "-fuse-ld=mold", "-ffast-math", "-fno-fast-math",
        "-funsafe-math-optimizations", "-fprofile-arcs", "-ftest-coverage", "--coverage", "-coverage",
        "-fprofile-generate", "-fprofile-instr-generate", "-fcoverage-mapping", "-fexperimental-library",
        "-fsplit-stack", "-fno-lto",
    ]),
    keep(Joined(Plain), &[
        "-O", "-fopenmp=", "-fsanitize=", "-fno-sanitize=", "-fsanitize-", "-fno-sanitize-", "-stdlib=", "-rtlib=",
        "--rtlib=", "-unwindlib=", "--unwindlib=", "--target=x86_64-",
    ]),
    keep(Value(Plain), &["-z", "-u", "-e"]),
    keep(Value(Machine), &["-target"]),
    keep(Value(Any), &["-rpath"]),
    // For assembly that goes through the preprocessor.
    keep(Value(Any), &["-D", "-U"]),
    keep(Joined(Any), &["-D", "-U"]),
    // What has no part in linking, or would write files of the build again.
    discard(Alone, &[
        "-c", "-v", "-w", "-ansi", "-pedantic", "-pedantic-errors", "-pipe", "-MD", "-MMD", "-MP", "-MG", "-MV",
        "-P", "-C", "-CC", "-H", "-nostdinc", "-nostdinc++", "-nobuiltininc", "-undef", "-traditional-cpp",
        "-trigraphs", "-Qunused-arguments", "-Qn", "-Qy", "-fPIC", "-fpic", "-fPIE", "-fpie", "-fintegrated-as",
        "--start-no-unused-arguments", "--end-no-unused-arguments", "--compile",
    ]),
    discard(Value(Any), &[
        "-o", "-I", "-MF", "-MT", "-MQ", "-MJ", "-include", "-include-pch", "-imacros", "-idirafter", "-iquote",
        "-isystem", "-isystem-after", "-isysroot", "-iprefix", "-iwithprefix", "-iwithprefixbefore",
        "-iwithsysroot", "-ivfsoverlay", "-cxx-isystem", "-stdlib++-isystem", "-serialize-diagnostics",
        "--serialize-diagnostics", "-dumpdir", "-mllvm", "-mthread-model", "--param", "-A", "--include-directory",
        "--define-macro", "--undefine-macro", "--include",
    ]),
    discard(Joined(Any), &[
        "-I", "-W", "-R", "-g", "-m", "-std=", "--std=", "-save-temps", "--save-temps", "--param=", "-isystem",
        "-iquote", "-idirafter", "-include", "-fno-", "-faligned-", "-falign-", "-fassociative-math",
        "-fasynchronous-unwind-tables", "-fblocks", "-fbuiltin", "-fcf-protection", "-fchar8_t", "-fcolor-",
        "-fcommon", "-fconstexpr-", "-fcoroutines", "-fcx-", "-fcxx-exceptions", "-fdata-sections", "-fdebug-",
        "-fdelete-null-pointer-checks", "-fdiagnostics-", "-feliminate-unused-debug", "-femit-", "-femulated-tls",
        "-fexceptions", "-fexcess-precision", "-fexec-charset", "-ffile-", "-ffinite-", "-ffp-", "-ffreestanding",
        "-ffunction-sections", "-fgnu", "-fhosted", "-fident", "-finline-", "-finput-charset", "-finstrument-",
        "-fjump-tables", "-fkeep-", "-flimit-debug-info", "-fmacro-", "-fmath-errno", "-fmerge-",
        "-fmessage-length", "-fms-", "-fomit-frame-pointer", "-foptimize-sibling-calls", "-fpatchable-",
        "-fpermissive", "-fplt", "-freciprocal-math", "-frounding-math", "-frtti", "-fsemantic-interposition",
        "-fshort-", "-fsigned-", "-fsized-", "-fslp-", "-fsplit-dwarf-inlining", "-fstack-", "-fstandalone-debug",
        "-fstrict-", "-ftemplate-", "-fthreadsafe-statics", "-ftime-", "-ftls-model", "-ftrapping-math", "-ftrapv",
        "-ftree-", "-ftrivial-auto-var-init", "-funique-", "-funroll-", "-funsigned-", "-funwind-tables",
        "-fuse-cxa-atexit", "-fuse-init-array", "-fvectorize", "-fverbose-asm", "-fvisibility", "-fwrapv",
        "-fzero-",
    ]),
];

/// Options of the linker without a value, by their name after one dash or two.
#[rustfmt::skip]
const LINKER_WORDS: &[&str] = &[
    "(", ")", "Bdynamic", "Bstatic", "Bsymbolic", "Bsymbolic-functions", "Bsymbolic-non-weak-functions", "E", "N",
    "O0", "O1", "O2", "O3", "S", "X", "add-needed", "allow-multiple-definition", "allow-shlib-undefined",
    "as-needed", "build-id", "call_shared", "copy-dt-needed-entries", "discard-all", "discard-locals",
    "disable-new-dtags", "dn", "dy", "eh-frame-hdr", "emit-relocs", "enable-new-dtags", "end-group",
    "export-dynamic", "gc-sections", "gdb-index", "n", "nmagic", "no-add-needed", "no-allow-shlib-undefined",
    "no-as-needed", "no-copy-dt-needed-entries", "no-dynamic-linker", "no-eh-frame-hdr", "no-export-dynamic",
    "no-gc-sections", "no-keep-memory", "no-ld-generated-unwind-info", "no-pie", "no-relax", "no-rosegment",
    "no-undefined", "no-undefined-version", "no-whole-archive", "non_shared", "omagic", "pic-executable", "pie",
    "pop-state", "push-state", "q", "reduce-memory-overheads", "relax", "rosegment", "s", "sort-common",
    "start-group", "static", "strip-all", "strip-debug", "undefined-version", "warn-unresolved-symbols",
    "whole-archive", "x", "fatal-warnings", "no-fatal-warnings", "warn-common", "no-warn-rwx-segments",
];

/// Options of the linker with a value.
#[rustfmt::skip]
const LINKER_VALUES: &[(&str, Text)] = &[
    ("Tbss", Plain), ("Tdata", Plain), ("Ttext", Plain), ("Ttext-segment", Plain), ("build-id", Plain),
    ("compress-debug-sections", Plain), ("defsym", Any), ("dynamic-linker", Any), ("e", Plain), ("entry", Plain),
    ("exclude-libs", Plain), ("export-dynamic-symbol", Any), ("fini", Plain), ("h", Plain), ("hash-style", Plain),
    ("icf", Plain), ("image-base", Plain), ("init", Plain), ("m", Plain), ("orphan-handling", Plain),
    ("pack-dyn-relocs", Plain), ("rpath", Any), ("section-start", Any), ("soname", Plain), ("sort-section", Plain),
    ("sort-common", Plain), ("threads", Plain), ("u", Plain), ("undefined", Plain), ("unresolved-symbols", Plain),
    ("wrap", Plain), ("z", Any),
];

/// Options of the linker whose value is a file of names that it reads.
const LINKER_FILES: &[&str] = &[
    "dynamic-list",
    "export-dynamic-symbol-list",
    "retain-symbols-file",
    "symbol-ordering-file",
    "version-script",
];

/// Options that only print.
const LINKER_PRINTS: &[&str] = &[
    "M",
    "cref",
    "demangle",
    "no-demangle",
    "print-gc-sections",
    "print-map",
    "stats",
    "t",
    "trace",
    "v",
    "verbose",
];

/// Options that write a file besides the output, or only matter while the build's own folder is there.
const LINKER_WRITES: &[&str] = &["Map", "dependency-file", "out-implib", "rpath-link"];

/// What to do with the words of the linker that were read so far.
#[derive(Debug, PartialEq, Eq)]
pub enum LinkerWords {
    /// Nothing yet, or nothing at all.
    Nothing,
    Pass(Vec<String>),
    /// Pass on `text` with the path of `file` behind it, as one word or two.
    WithFile {
        option: Option<String>,
        text: String,
        file: String,
    },
    /// An input that is named among the linker's own words.
    Input(String),
    Library(String),
    Folder(String),
}

/// Reads words of the linker one at a time.
#[derive(Debug, Default)]
pub struct LinkerReader {
    /// An option that waits for its value.
    waiting: Option<String>,
}

impl LinkerReader {
    pub fn read(&mut self, word: &str) -> Result<LinkerWords, RefusedFlag> {
        if let Some(option) = self.waiting.take() {
            return with_value(option, word);
        }
        let Some(name) = word.strip_prefix('-') else {
            let is_input = !word.is_empty() && !word.starts_with('@');
            return is_input
                .then(|| LinkerWords::Input(word.to_string()))
                .ok_or_else(|| refused(word));
        };
        let name = name.strip_prefix('-').unwrap_or(name);
        if LINKER_WORDS.contains(&name) {
            return Ok(LinkerWords::Pass(vec![word.to_string()]));
        }
        if LINKER_PRINTS.contains(&name) {
            return Ok(LinkerWords::Nothing);
        }
        if let Some((option, value)) = name.split_once('=') {
            let start = &word[..word.len() - value.len()];
            return match () {
                () if LINKER_WRITES.contains(&option) => Ok(LinkerWords::Nothing),
                () if LINKER_FILES.contains(&option) => Ok(LinkerWords::WithFile {
                    option: None,
                    text: start.to_string(),
                    file: value.to_string(),
                }),
                () if takes(option, value) => Ok(LinkerWords::Pass(vec![word.to_string()])),
                () => Err(refused(word)),
            };
        }
        let has_value = LINKER_VALUES.iter().any(|(option, _)| *option == name);
        if has_value || LINKER_FILES.contains(&name) || LINKER_WRITES.contains(&name) {
            self.waiting = Some(word.to_string());
            return Ok(LinkerWords::Nothing);
        }
        match (word.strip_prefix("-l"), word.strip_prefix("-L")) {
            (Some(library), _) if !library.is_empty() => {
                Ok(LinkerWords::Library(library.to_string()))
            }
            (_, Some(folder)) if !folder.is_empty() => Ok(LinkerWords::Folder(folder.to_string())),
            _ => Err(refused(word)),
        }
    }

    /// At the end of the line no option may wait.
    pub fn end(self) -> Result<(), RefusedFlag> {
        self.waiting.map_or(Ok(()), |option| Err(refused(option)))
    }
}

fn takes(option: &str, value: &str) -> bool {
    let mut rows = LINKER_VALUES.iter();
    rows.any(|(name, text)| *name == option && text.admits(value))
}

fn with_value(option: String, value: &str) -> Result<LinkerWords, RefusedFlag> {
    let name = option.trim_start_matches('-');
    if LINKER_WRITES.contains(&name) {
        return Ok(LinkerWords::Nothing);
    }
    if LINKER_FILES.contains(&name) {
        return Ok(LinkerWords::WithFile {
            option: Some(option),
            text: String::new(),
            file: value.to_string(),
        });
    }
    if takes(name, value) {
        return Ok(LinkerWords::Pass(vec![option, value.to_string()]));
    }
    Err(refused(format!("{option} {value}")))
}

/// Is all of a stored plan still allowed? A store may be older than the list.
pub fn check(items: &[LinkItem]) -> Result<(), RefusedFlag> {
    let mut reader = LinkerReader::default();
    let mut words = Vec::new();
    for item in items {
        match item {
            LinkItem::Word(word) => words.push(word.clone()),
            LinkItem::LinkerWord { text, file } => {
                let name = if file.is_some() { "file" } else { "" };
                match reader.read(&format!("{text}{name}"))? {
                    LinkerWords::Input(word) => return Err(refused(word)),
                    LinkerWords::WithFile { .. } if file.is_none() => return Err(refused(text)),
                    _ => {}
                }
            }
            LinkItem::Input { language, .. } => match language.as_deref() {
                None | Some("assembler" | "assembler-with-cpp") => {}
                Some(other) => return Err(refused(format!("-x {other}"))),
            },
            LinkItem::Modules(_) => {}
        }
    }
    reader.end()?;
    for argument in driver_args::parse(&words) {
        match argument {
            DriverArgument::Input(path) if path.starts_with('/') => {}
            DriverArgument::Input(word) | DriverArgument::MissingValue(word) => {
                return Err(refused(word));
            }
            DriverArgument::EndOfOptions => return Err(refused("--")),
            DriverArgument::Option { name, value } => match (&*name, value.as_deref()) {
                ("-l", Some(name)) => drop(library(name)?),
                ("-L", Some(folder)) if folder.starts_with('/') => {}
                (name, value) => {
                    let given: Vec<&str> = [name].into_iter().chain(value).collect();
                    if driver_option(name, value)? != given {
                        return Err(refused(name));
                    }
                }
            },
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;
    use proptest::sample::select as one_of;

    fn read(words: &[&str]) -> Result<Vec<LinkerWords>, RefusedFlag> {
        let mut reader = LinkerReader::default();
        let read = words.iter().map(|word| reader.read(word)).collect();
        reader.end()?;
        read
    }

    #[test]
    fn ordinary_words_are_passed_on_with_their_values() {
        let pass =
            |words: &[&str]| LinkerWords::Pass(words.iter().map(|w| w.to_string()).collect());
        assert_eq!(
            read(&[
                "-z",
                "now",
                "--gc-sections",
                "-rpath=$ORIGIN/lib",
                "-Map",
                "out"
            ]),
            Ok(vec![
                LinkerWords::Nothing,
                pass(&["-z", "now"]),
                pass(&["--gc-sections"]),
                pass(&["-rpath=$ORIGIN/lib"]),
                LinkerWords::Nothing,
                LinkerWords::Nothing,
            ])
        );
        assert_eq!(driver_option("-pthread", None).unwrap(), ["-pthread"]);
        assert_eq!(driver_option("-O2", None).unwrap(), ["-O2"]);
        let none: [&str; 0] = [];
        assert_eq!(driver_option("-include", Some("config.h")).unwrap(), none);
        assert_eq!(driver_option("-Wall", None).unwrap(), none);
    }

    const EVIL_DRIVER: &[(&str, Option<&str>)] = &[
        ("-fplugin=/tmp/evil.so", None),
        ("-fpass-plugin=/tmp/evil.so", None),
        ("-Xclang", Some("-load")),
        ("-Xassembler", Some("x")),
        ("-B", Some("/tmp")),
        ("-B/tmp", None),
        ("--config", Some("/tmp/evil.cfg")),
        ("--config=/tmp/evil.cfg", None),
        ("-wrapper", None),
        ("-fuse-ld=/tmp/evil", None),
        ("-fuse-ld=evil", None),
        ("--ld-path=/tmp/evil", None),
        ("-specs=/tmp/evil", None),
        ("-T", Some("script")),
        ("--sysroot", Some("/tmp")),
        ("--sysroot=/tmp", None),
        ("-flto", None),
        ("-D", Some("@/tmp/flags")),
        ("-u", Some("-plugin")),
    ];

    const EVIL_LINKER: &[&[&str]] = &[
        &["-plugin", "/tmp/evil.so"],
        &["--plugin=/tmp/evil.so"],
        &["-plugin-opt=x"],
        &["--load-pass-plugin=/tmp/evil.so"],
        &["-mllvm", "-load=/tmp/evil.so"],
        &["-T", "script"],
        &["--script=script"],
        &["-dT", "script"],
        &["--just-symbols=x"],
        &["-R", "x"],
        &["-o", "/tmp/out"],
        &["--output=/tmp/out"],
        &["@/tmp/flags"],
        &["-rpath", "@/tmp/flags"],
        &["-rpath", "-plugin"],
        &["-rpath"],
        &[""],
    ];

    #[test]
    fn what_loads_code_or_reaches_for_files_is_refused_by_name() {
        for (name, value) in EVIL_DRIVER {
            let refused = driver_option(name, *value).unwrap_err();
            assert!(refused.0.starts_with(name), "{refused}");
        }
        for words in EVIL_LINKER {
            let refused = read(words).unwrap_err();
            assert!(refused.0.starts_with(words[0]), "{refused}");
        }
        for name in ["", "/tmp/x", "a b", "@x"] {
            assert!(library(name).is_err(), "{name}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(5000))]

        /// Any words: whatever is passed on is on a list, an option with its value.
        #[test]
        fn linker_words_that_are_passed_on_are_on_the_list(
            words in vec(
                prop_oneof![
                    3 => one_of(LINKER_WORDS).prop_map(|it| format!("-{it}")),
                    3 => one_of(LINKER_VALUES).prop_map(|it| format!("--{}", it.0)),
                    2 => one_of(EVIL_LINKER).prop_map(|it| it[0].to_string()),
                    2 => "[-@/a-z=]{0,9}",
                    1 => any::<String>(),
                ],
                0..6,
            )
        ) {
            let mut reader = LinkerReader::default();
            for word in &words {
                let Ok(LinkerWords::Pass(passed)) = reader.read(word) else { continue };
                let name = passed[0].trim_start_matches('-');
                match &passed[1..] {
                    [] => match name.split_once('=') {
                        None => prop_assert!(LINKER_WORDS.contains(&name)),
                        Some((option, value)) => prop_assert!(takes(option, value)),
                    },
                    [value] => {
                        prop_assert!(takes(name, value));
                        prop_assert!(!value.starts_with(['-', '@']));
                    }
                    _ => prop_assert!(false, "{passed:?}"),
                }
            }
        }
    }
}
