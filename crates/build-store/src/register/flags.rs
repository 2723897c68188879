//! Which of a binary's recorded compiler flags are given to clang again.
//!
//! The flags come out of the file that is being registered, so whoever made the
//! file chose them, and clang has flags that load code (`-load`, `-fplugin=`,
//! `-fpass-plugin=`), read files and write files. Therefore this is a list of
//! what is allowed, not of what is forbidden. One row a flag; a row says how many
//! words the flag takes and what becomes of them:
//!
//! - *kept*: it steers optimisation or code generation and names no file;
//! - *dropped*: it only matters while source text is read, or it names a file that
//!   clang would read or write. If the code depends on it after all, the proof
//!   fails, and says so.
//!
//! A flag without a row is refused, and its module is untrackable. No word that
//! begins with `@` is ever passed on: clang would read further flags from a file.
//!
//! `link_flags.rs` does the same for link lines.

/// A flag that is on no list.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not among the flags that failsketch passes on to {1}")]
pub struct RefusedFlag(pub String, pub &'static str);

/// How a flag is spelled, and so how many words belong to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    /// One word, exactly this.
    Alone,
    /// This word and the next one.
    Value(Text),
    /// One word that begins so; the rest is the value.
    Joined(Text),
    /// `-fNAME` or `-fno-NAME`.
    Switch,
}

/// What a value may consist of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Text {
    /// Letters, digits and a few signs; no path, and it is no flag itself.
    Plain,
    /// The name of a processor feature, with its sign.
    Feature,
    /// An option of LLVM's own that has a row in [`LLVM_OPTIONS`].
    LlvmOption,
    /// The name of a machine of ours.
    Machine,
    /// Any text that is no flag: it is written into the output, or into nothing.
    Any,
}

impl Text {
    pub(crate) fn admits(self, value: &str) -> bool {
        let plain = |text: &str| {
            let sign = |c: char| "_.,+:-".contains(c);
            text.chars().all(|c| c.is_ascii_alphanumeric() || sign(c))
        };
        match self {
            Text::Plain => plain(value) && !value.starts_with('-'),
            Text::Feature => plain(value) && value.starts_with(['+', '-']),
            Text::LlvmOption => LLVM_OPTIONS.iter().any(|option| {
                let rest = value.strip_prefix(option);
                rest.is_some_and(|rest| rest.is_empty() || (option.ends_with('=') && plain(rest)))
            }),
            Text::Machine => plain(value) && value.starts_with("x86_64-"),
            Text::Any => !value.starts_with(['@', '-']),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    Keep,
    Drop,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Row {
    pub(crate) names: &'static [&'static str],
    pub(crate) shape: Shape,
    pub(crate) fate: Fate,
}

pub(crate) const fn keep(shape: Shape, names: &'static [&'static str]) -> Row {
    Row {
        names,
        shape,
        fate: Fate::Keep,
    }
}

pub(crate) const fn discard(shape: Shape, names: &'static [&'static str]) -> Row {
    Row {
        names,
        shape,
        fate: Fate::Drop,
    }
}

impl Row {
    /// Does this row speak of `word`? Then also: with what in the place of its value.
    fn value_in<'w>(&self, word: &'w str) -> Option<&'w str> {
        match self.shape {
            Shape::Alone | Shape::Value(_) => self.names.contains(&word).then_some(""),
            Shape::Joined(text) => {
                let mut rests = self.names.iter().filter_map(|it| word.strip_prefix(it));
                // What is dropped may be of any text.
                rests.find(|rest| self.fate == Fate::Drop || text.admits(rest))
            }
            Shape::Switch => {
                let name = word.strip_prefix("-f")?;
                let name = name.strip_prefix("no-").unwrap_or(name);
                self.names.contains(&name).then_some("")
            }
        }
    }
}

/// Chooses from `words` by `rows`, the first row that fits a word deciding.
pub(crate) fn select(
    words: &[String],
    rows: &[Row],
    tool: &'static str,
) -> Result<Vec<String>, RefusedFlag> {
    let mut kept = Vec::with_capacity(words.len());
    let mut rest = words.iter();
    while let Some(word) = rest.next() {
        let refused = || RefusedFlag(word.clone(), tool);
        let row = rows.iter().find(|row| row.value_in(word).is_some());
        let row = row.ok_or_else(refused)?;
        let value = match row.shape {
            Shape::Value(text) => {
                let value = rest.next().ok_or_else(refused)?;
                if row.fate == Fate::Keep && !text.admits(value) {
                    return Err(RefusedFlag(format!("{word} {value}"), tool));
                }
                Some(value)
            }
            _ => None,
        };
        if row.fate == Fate::Keep {
            kept.push(word.clone());
            kept.extend(value.cloned());
        }
    }
    Ok(kept)
}

/// Of the recorded `-cc1` flags, those to compile bitcode with.
pub fn for_bitcode(recorded: &[String]) -> Result<Vec<String>, RefusedFlag> {
    select(recorded, COMPILER_FLAGS, "clang")
}

use Shape::{Alone, Joined, Switch, Value};
use Text::{Any, Feature, LlvmOption, Machine, Plain};

/// The flags of `clang -cc1` (clang 19, `clang/include/clang/Driver/Options.td`).
#[rustfmt::skip]
const COMPILER_FLAGS: &[Row] = &[
    discard(Alone, &["-cc1"]),
    // Machine and code model.
    keep(Value(Machine), &["-triple"]),
    keep(Value(Feature), &["-target-feature"]),
    keep(Value(Plain), &[
        "-target-cpu", "-tune-cpu", "-target-abi", "-target-linker-version", "-mrelocation-model", "-pic-level",
        "-mthread-model", "-mfloat-abi", "-mfpmath", "-mlimit-float-precision", "-mregparm", "-function-alignment",
        "-exception-model", "-stack-protector", "-stack-protector-buffer-size",
    ]),
    keep(Joined(Plain), &[
        "-mcmodel=", "-mlarge-data-threshold=", "-mframe-pointer=", "-mprefer-vector-width=", "-mrecip=",
        "-mstack-alignment=", "-mstack-probe-size=", "-mstack-protector-guard=", "-mstack-protector-guard-offset=",
        "-mstack-protector-guard-reg=", "-mtls-size=", "-mfunction-return=", "-mharden-sls=", "-fbinutils-version=",
        "-exception-model=", "-mrelax-relocations=",
    ]),
    keep(Alone, &[
        "-pic-is-pie", "-disable-red-zone", "-enable-tlsdesc", "-malign-double", "-menable-no-infs",
        "-menable-no-nans", "-mfentry", "-mnop-mcount", "-mrecord-mcount", "-pg", "-mglobal-merge",
        "-mno-global-merge", "-mindirect-branch-cs-prefix", "-mlong-double-64", "-mlong-double-80",
        "-mlong-double-128", "-mms-bitfields", "-mno-stack-arg-probe", "-mno-tls-direct-seg-refs", "-mnoexecstack",
        "-mreassociate", "-mregnames", "-mrelax-all", "-msave-temp-labels", "-mskip-rax-setup", "-msoft-float",
        "-mspeculative-load-hardening", "-mstackrealign", "-mconstructor-aliases", "-mno-constructor-aliases",
        "-munsafe-fp-atomics", "-no-implicit-float", "-static-define", "-pthread", "-mno-implicit-float",
    ]),
    // Optimisation.
    keep(Alone, &[
        "-O0", "-O1", "-O2", "-O3", "-O4", "-Os", "-Oz", "-Og", "-Ofast", "-vectorize-loops", "-vectorize-slp",
        "-relaxed-aliasing", "-pointer-tbaa", "-new-struct-path-tbaa", "-no-struct-path-tbaa", "-disable-O0-optnone",
        "-disable-lifetime-markers", "-disable-free", "-disable-llvm-verifier", "-discard-value-names",
        "-clear-ast-before-backend", "-no-clear-ast-before-backend", "-enable-noundef-analysis",
        "-no-enable-noundef-analysis",
    ]),
    keep(Joined(Plain), &[
        "-complex-range=", "-falign-loops=", "-fdenormal-fp-math=", "-fdenormal-fp-math-f32=",
        "-fbfloat16-excess-precision=", "-ffloat16-excess-precision=", "-ffp-contract=", "-ffp-eval-method=",
        "-ffp-exception-behavior=", "-finline-max-stacksize=", "-fveclib=",
    ]),
    keep(Switch, &[
        "approx-func", "assume-sane-operator-new", "assume-unique-vtables", "cx-fortran-rules", "cx-limited-range",
        "convergent-functions", "delete-null-pointer-checks", "fast-math", "finite-loops", "finite-math-only",
        "fine-grained-bitfield-accesses", "half-no-semantic-interposition", "inline", "inline-functions",
        "inline-hint-functions", "jump-tables", "math-errno", "merge-all-constants", "merge-functions",
        "omit-frame-pointer", "optimize-sibling-calls", "protect-parens", "reciprocal-math", "rounding-math",
        "semantic-interposition", "signed-zeros", "strict-aliasing", "strict-enums", "strict-float-cast-overflow",
        "strict-return", "strict-vtable-pointers", "trapping-math", "unroll-loops", "unsafe-math-optimizations",
        "wrapv", "trapv", "new-infallible", "force-enable-int128",
    ]),
    keep(Value(LlvmOption), &["-mllvm"]),
    // Code generation.
    keep(Joined(Plain), &[
        "-fcf-protection=", "-fpatchable-function-entry=", "-fpatchable-function-entry-offset=", "-ftls-model=",
        "-ftrivial-auto-var-init=", "-ftrivial-auto-var-init-max-size=", "-ftrivial-auto-var-init-stop-after=",
        "-funwind-tables=", "-fvisibility=", "-ftype-visibility=", "-fvisibility-global-new-delete=",
        "-fzero-call-used-regs=", "-femit-dwarf-unwind=", "-fmax-type-align=", "-fswift-async-fp=", "-ftrap-function=",
        "-fxray-instruction-threshold=", "-fxray-instrumentation-bundle=", "-fxray-function-groups=",
        "-fxray-selected-function-group=", "-fxray-modes=",
    ]),
    keep(Alone, &["-fbasic-block-sections=all", "-fbasic-block-sections=none", "-fbasic-block-address-map"]),
    keep(Switch, &[
        "addrsig", "apply-global-visibility-to-externs", "cf-protection", "common", "data-sections",
        "direct-access-external-data", "dwarf-directory-asm", "emulated-tls", "exceptions", "cxx-exceptions",
        "force-dwarf-frame", "force-emit-vtables", "function-sections", "ident", "ignore-exceptions",
        "instrument-functions", "instrument-functions-after-inlining", "instrument-function-entry-bare",
        "integrated-as", "keep-persistent-storage-variables", "keep-static-consts", "plt",
        "register-global-dtors-with-atexit", "separate-named-sections", "split-machine-functions", "split-stack",
        "stack-clash-protection", "stack-size-section", "threadsafe-statics", "unique-internal-linkage-names",
        "unique-section-names", "use-cxa-atexit", "use-init-array", "verbose-asm", "visibility-inlines-hidden",
        "visibility-inlines-hidden-static-local-var", "whole-program-vtables", "zero-initialized-in-bss",
        "virtual-function-elimination", "split-lto-unit", "xray-instrument", "xray-ignore-loops",
        "xray-always-emit-customevents", "xray-always-emit-typedevents", "unique-basic-block-section-names",
    ]),
    // Sanitizers, coverage and profiling, as far as they name no list and no profile.
    keep(Joined(Plain), &[
        "-fsanitize=", "-fno-sanitize=", "-fsanitize-trap=", "-fsanitize-recover=", "-fsanitize-coverage-type=",
        "-fsanitize-memory-track-origins=", "-fsanitize-address-destructor=", "-fsanitize-address-field-padding=",
        "-fsanitize-address-use-after-return=", "-fsanitize-undefined-strip-path-components=",
        "-fprofile-instrument=", "-fprofile-update=", "-fprofile-function-groups=",
        "-fprofile-selected-function-group=", "-coverage-version=",
    ]),
    keep(Joined(Any), &["-coverage-data-file=", "-fprofile-instrument-path="]),
    keep(Switch, &[
        "sanitize-address-globals-dead-stripping", "sanitize-address-outline-instrumentation",
        "sanitize-address-poison-custom-array-cookie", "sanitize-address-use-after-scope",
        "sanitize-address-use-odr-indicator", "sanitize-cfi-canonical-jump-tables", "sanitize-cfi-cross-dso",
        "sanitize-cfi-icall-generalize-pointers", "sanitize-cfi-icall-experimental-normalize-integers",
        "sanitize-coverage-8bit-counters", "sanitize-coverage-control-flow", "sanitize-coverage-indirect-calls",
        "sanitize-coverage-inline-8bit-counters", "sanitize-coverage-inline-bool-flag", "sanitize-coverage-no-prune",
        "sanitize-coverage-pc-table", "sanitize-coverage-stack-depth", "sanitize-coverage-trace-bb",
        "sanitize-coverage-trace-cmp", "sanitize-coverage-trace-div", "sanitize-coverage-trace-gep",
        "sanitize-coverage-trace-loads", "sanitize-coverage-trace-pc", "sanitize-coverage-trace-pc-guard",
        "sanitize-coverage-trace-stores", "sanitize-memory-param-retval", "sanitize-memory-track-origins",
        "sanitize-memory-use-after-dtor", "sanitize-minimal-runtime", "sanitize-stable-abi", "sanitize-stats",
        "sanitize-thread-atomics", "sanitize-thread-func-entry-exit", "sanitize-thread-memory-access",
        "coverage-mapping", "coverage-mcdc", "debug-info-for-profiling", "pseudo-probe-for-profiling",
    ]),
    // Debug info.
    keep(Joined(Plain), &[
        "-debug-info-kind=", "-dwarf-version=", "-debugger-tuning=", "-gsimple-template-names=", "-gsrc-hash=",
    ]),
    keep(Joined(Any), &[
        "-fdebug-compilation-dir=", "-fcoverage-compilation-dir=", "-fdebug-prefix-map=", "-fcoverage-prefix-map=",
    ]),
    keep(Value(Any), &["-main-file-name"]),
    keep(Alone, &[
        "-debug-info-macro", "-dwarf-ext-refs", "-dwarf-explicit-import", "-debug-forward-template-params",
        "-gdwarf32", "-gdwarf64", "-ggnu-pubnames", "-gpubnames", "-gno-column-info", "-gno-inline-line-tables",
        "-gstrict-dwarf", "-gno-strict-dwarf", "-gembed-source", "-gno-embed-source", "-Qn", "-Qy",
    ]),
    keep(Switch, &["debug-ranges-base-address", "split-dwarf-inlining", "use-ctor-homing"]),
    // Language.
    keep(Joined(Plain), &[
        "-std=", "-stdlib=", "-fclang-abi-compat=", "-fc++-abi=", "-fgnuc-version=", "-flax-vector-conversions=",
        "-fstrict-flex-arrays=", "-fwchar-type=", "-fopenmp-version=", "-fms-compatibility-version=",
    ]),
    keep(Switch, &[
        "access-control", "aligned-allocation", "blocks", "builtin", "char8_t", "check-new", "coroutines",
        "coro-aligned-allocation", "const-strings", "declspec", "deprecated-macro", "dollars-in-identifiers",
        "elide-constructors", "freestanding", "gnu-keywords", "gnu89-inline", "hosted", "lax-vector-conversions",
        "ms-compatibility", "ms-extensions", "native-half-arguments-and-returns", "native-half-type", "openmp",
        "openmp-simd", "operator-names", "pascal-strings", "pcc-struct-return", "reg-struct-return",
        "relaxed-template-template-args", "rtti", "rtti-data", "short-enums", "short-wchar", "signed-char",
        "signed-wchar", "sized-deallocation", "skip-odr-check-in-gmf", "experimental-library", "writable-strings",
        "fixed-point", "complete-member-pointers", "math-builtin",
    ]),
    keep(Joined(Plain), &["-fno-builtin-"]),
    // What only matters while source text is read, or names a file. The proof decides.
    discard(Value(Any), &[
        "-D", "-F", "-I", "-MQ", "-MT", "-U", "-aux-triple", "-c-isystem", "-cxx-isystem", "-dependency-dot",
        "-dependency-file", "-diagnostic-log-file", "-dumpdir", "-dwarf-debug-flags", "-fbracket-depth",
        "-ferror-limit", "-fmessage-length", "-ftabstop", "-header-include-file", "-idirafter", "-iframework",
        "-imacros", "-include", "-include-pch", "-internal-externc-isystem", "-internal-isystem", "-iprefix",
        "-iquote", "-isysroot", "-isystem", "-ivfsoverlay", "-iwithprefix", "-iwithprefixbefore", "-iwithsysroot",
        "-module-dependency-dir", "-o", "-opt-record-file", "-opt-record-format", "-opt-record-passes",
        "-record-command-line", "-resource-dir", "-serialize-diagnostic-file", "-source-date-epoch",
        "-split-dwarf-file", "-split-dwarf-output", "-stack-usage-file", "-x",
    ]),
    discard(Joined(Any), &[
        "-D", "-I", "-R", "-U", "-W", "--embed-dir=", "--system-header-prefix=", "--no-system-header-prefix=",
        "-coverage-notes-file", "-emit-", "-fcaret-diagnostics-max-lines=", "-fconstexpr-", "-fdiagnostics-",
        "-fembed-bitcode", "-fmacro-backtrace-limit=", "-fmacro-prefix-map=", "-fmax-tokens=", "-fmessage-length=",
        "-fmodule-", "-fmodules", "-fno-diagnostics-", "-foperator-arrow-depth=", "-fpack-struct=",
        "-fprofile-instrument-use-path=", "-fprofile-remapping-file=", "-fprofile-sample-use=",
        "-fsanitize-ignorelist=", "-fsanitize-system-ignorelist=", "-fshow-overloads=", "-fspell-checking-limit=",
        "-ftemplate-backtrace-limit=", "-ftemplate-depth=", "-ftime-report", "-ftime-trace", "-stats-file",
        "-object-file-name=", "-save-temps",
        // What is read again is not inflated first.
        "--compress-debug-sections", "-compress-debug-sections",
    ]),
    discard(Alone, &[
        "-C", "-CC", "-H", "-S", "-MG", "-MP", "-MV", "-P", "-dD", "-dI", "-dM", "-module-file-deps", "-no-round-trip-args",
        "-nobuiltininc", "-nostdinc++", "-nostdsysteminc", "-pedantic", "-pedantic-errors", "-print-stats",
        "-round-trip-args", "-sys-header-deps", "-traditional-cpp", "-undef", "-v", "-w",
    ]),
    discard(Switch, &[
        "caret-diagnostics", "color-diagnostics", "implicit-module-maps", "implicit-modules", "show-column",
        "show-source-location", "spell-checking", "trigraphs", "elide-type", "file-reproducible",
        "allow-editor-placeholders", "ansi-escape-codes", "recovery-ast", "recovery-ast-type", "digraphs",
    ]),
];

/// Options of LLVM's passes that clang's driver adds or builds are known to set. None
/// of them prints, reads or writes anything.
const LLVM_OPTIONS: &[&str] = &[
    "-treat-scalable-fixed-error-as-warning",
    "-align-all-functions=",
    "-align-all-nofallthru-blocks=",
    "-force-vector-interleave=",
    "-force-vector-width=",
    "-generate-type-units",
    "-inline-threshold=",
    "-inlinehint-threshold=",
    "-unroll-count=",
    "-unroll-threshold=",
    "-x86-align-branch-boundary=",
    "-x86-align-branch=",
    "-x86-branches-within-32B-boundaries",
];

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;
    use proptest::sample::select as one_of;

    fn words(line: &str) -> Vec<String> {
        line.split_whitespace().map(str::to_string).collect()
    }

    #[test]
    fn only_code_generation_flags_stay() {
        let flags = words(
            "-cc1 -triple x86_64-pc-linux-gnu -emit-obj -D FOO=1 -Iinc -target-feature -xop \
             -mllvm -inline-threshold=7 -internal-isystem /usr/include -O2 -dependency-file a.d \
             -MT a.o -sys-header-deps -fembed-bitcode=all -main-file-name a.c -faddrsig \
             -fno-plt -fdebug-compilation-dir=/src -Wall",
        );
        assert_eq!(
            for_bitcode(&flags).unwrap().join(" "),
            "-triple x86_64-pc-linux-gnu -target-feature -xop -mllvm -inline-threshold=7 -O2 \
             -main-file-name a.c -faddrsig -fno-plt -fdebug-compilation-dir=/src"
        );
    }

    /// Flags that load code, take over what clang does, or reach for files.
    const EVIL: &[&str] = &[
        "-load /tmp/evil.so",
        "-fplugin=/tmp/evil.so",
        "-fpass-plugin=/tmp/evil.so",
        "-plugin evil",
        "-add-plugin evil",
        "-plugin-arg-evil x",
        "-mllvm -load=/tmp/evil.so",
        "-mllvm -load-pass-plugin=/tmp/evil.so",
        "-Xclang -load",
        "-B /tmp",
        "-B/tmp",
        "--config /tmp/evil.cfg",
        "--config=/tmp/evil.cfg",
        "-wrapper /tmp/evil",
        "-fuse-ld=/tmp/evil",
        "-specs=/tmp/evil",
        "@/tmp/flags",
        "-target-cpu @/tmp/flags",
        "-main-file-name @/tmp/flags",
        "-target-cpu -load",
        "-mlink-bitcode-file /tmp/x.bc",
        "-mlink-builtin-bitcode /tmp/x.bc",
        "-fembed-offload-object=/etc/passwd",
        "-fthinlto-index=/etc/passwd",
        "-fbasic-block-sections=list=/etc/passwd",
        "-fsanitize-coverage-ignorelist=/etc/passwd",
        "-fverify-debuginfo-preserve-export=/tmp/out",
        "-remap-file a;b",
        "-ast-dump",
        "-E",
        "-as-secure-log-file /tmp/out",
        "-working-directory /",
        "-triple amdgcn-amd-amdhsa",
        "-cc1as",
        "input.c",
        "-",
        "--",
        "",
    ];

    #[test]
    fn what_loads_code_or_reaches_for_files_is_refused_by_name() {
        for line in EVIL {
            let flags = if line.is_empty() {
                vec![String::new()]
            } else {
                words(line)
            };
            let refused = for_bitcode(&[words("-cc1 -O2"), flags].concat()).unwrap_err();
            let first = line.split(' ').next().unwrap_or_default();
            assert!(refused.0.starts_with(first), "{line}: {refused}");
        }
    }

    /// Takes kept words apart by the table alone, without [`select`].
    fn is_allowed(mut words: &[String]) -> bool {
        while let Some((word, rest)) = words.split_first() {
            words = rest;
            let fits = COMPILER_FLAGS.iter().any(|row| {
                let fits = match row.shape {
                    Alone => row.names.contains(&&**word),
                    Switch => row.names.iter().any(|name| {
                        *word == format!("-f{name}") || *word == format!("-fno-{name}")
                    }),
                    Joined(text) => row.names.iter().any(|name| {
                        word.len() >= name.len()
                            && word.starts_with(name)
                            && text.admits(&word[name.len()..])
                    }),
                    Value(text) => {
                        let fits = row.names.contains(&&**word)
                            && words.first().is_some_and(|value| text.admits(value));
                        if fits && row.fate == Fate::Keep {
                            words = &words[1..];
                        }
                        fits
                    }
                };
                fits && row.fate == Fate::Keep
            });
            if !fits || word.starts_with('@') {
                return false;
            }
        }
        true
    }

    fn known() -> Vec<String> {
        let rows = COMPILER_FLAGS.iter();
        let names = rows.flat_map(|row| row.names.iter().map(move |name| (row.shape, name)));
        names
            .map(|(shape, name)| match shape {
                Switch => format!("-f{name}"),
                _ => name.to_string(),
            })
            .collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(5000))]

        /// Any words, flags of the table and flags that are evil among them: whatever is
        /// passed on is on the list.
        #[test]
        fn what_is_passed_on_is_on_the_list(
            given in vec(
                prop_oneof![
                    4 => one_of(known()),
                    2 => one_of(known()).prop_flat_map(|flag| {
                        "[-@/a-z0-9=+,. ]{0,12}".prop_map(move |value| format!("{flag}{value}"))
                    }),
                    2 => "[-@+a-z0-9/=.]{0,12}",
                    1 => one_of(EVIL).prop_map(|line| {
                        line.split(' ').next_back().unwrap_or_default().to_string()
                    }),
                    1 => any::<String>(),
                ],
                0..6,
            )
        ) {
            if let Ok(kept) = for_bitcode(&given) {
                prop_assert!(is_allowed(&kept), "{kept:?}");
                prop_assert_eq!(for_bitcode(&kept), Ok(kept));
            }
        }
    }
}
