//! `./dev bench slicer`: what slicing costs beside compiling, on real programs.
//!
//! One row a program: reading its bitcode, making the graph (TICFG), a slice, a
//! plan; then a slice from the graph that the build store kept. Each is given
//! as a share of what `clang-19 -O2` needs for the same sources with the same
//! flags, without debug info and in the same run, so that the machine drops out
//! of it. CPU time and not wall time, because a shared machine has neighbours;
//! medians, because they are noisy ones. The peak of memory is the whole
//! process's, LLVM's library included; what that process takes before it reads
//! anything is printed beside it.
//!
//! The programs are those of `real-programs.sh`, which fetches, builds and
//! registers what is not there yet. A slice starts at a line that is found by
//! its text, because Debian's versions move.

use crate::bench::overhead::timed::children;
use crate::bench::{Arguments, median};
use crate::tables::{self, Column, figures, words};
use anyhow::{Context, Result, bail};
use serde::Serialize;
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// How often each is measured.
const FROM_BITCODE: usize = 3;
const FROM_GRAPH: usize = 9;
const COMPILED: usize = 1;

/// A program, and the line that its slice starts from.
struct Subject {
    program: &'static str,
    file: &'static str,
    line: &'static str,
}

const SUBJECTS: [Subject; 5] = [
    Subject {
        program: "pbzip2",
        file: "pbzip2.cpp",
        line: "safe_mutex_unlock(fifo->mut);",
    },
    Subject {
        program: "memcached",
        file: "items.c",
        line: "item_stats_sizes_remove(it);",
    },
    Subject {
        program: "curl",
        file: "multi.c",
        line: "result = Curl_http_connect(data, &protocol_connected);",
    },
    Subject {
        program: "sqlite3",
        file: "sqlite3.c",
        line: "rc = sqlite3VdbeExec(p);",
    },
    Subject {
        program: "cppcheck",
        file: "valueflow.cpp",
        line: "setTokenValue(tok, value, settings);",
    },
];

pub fn run(arguments: &Arguments) -> Result<()> {
    let bench = Bench::find()?;
    let mut rows = Vec::new();
    println!("{}", tables::head(&COLUMNS));
    let usual = ["pbzip2", "memcached", "sqlite3"].map(str::to_owned);
    let programs = match arguments.programs.as_slice() {
        [] => &usual[..],
        named => named,
    };
    for name in programs {
        let known = SUBJECTS.iter().find(|subject| subject.program == name);
        let subject = known.with_context(|| format!("there is no program {name}"))?;
        let row = bench.measure(subject)?;
        println!("{}", row.line());
        rows.push(row);
    }
    let file = arguments.json.clone();
    let file = file.unwrap_or_else(|| arguments.folder.join("slicer.json"));
    tables::save(&file, &rows)?;
    println!("\nAims: TICFG and slice at most 5% of clang, peak at most 20 times the bitcode,");
    println!(
        "a second slice at most 0.2%. Written to {}.",
        file.display()
    );
    Ok(())
}

const COLUMNS: [Column<'_>; 12] = [
    words("program", 9),
    figures("bitcode MB", 10),
    figures("clang s", 7),
    figures("load s", 6),
    figures("TICFG s", 7),
    figures("slice s", 7),
    figures("plan s", 6),
    figures("TICFG + slice, of clang", 10),
    figures("peak MB", 7),
    figures("of bitcode", 10),
    figures("2nd slice ms", 12),
    figures("of clang", 8),
];

/// One program, in CPU seconds and bytes. "second" is a slice from the stored graph:
/// reading it, the slice, and all of that process.
#[derive(Default, Serialize)]
struct Row {
    program: String,
    statements_in_slice: u64,
    bitcode_bytes: u64,
    clang_cpu_s: f64,
    load_cpu_s: f64,
    ticfg_cpu_s: f64,
    slice_cpu_s: f64,
    plan_cpu_s: f64,
    ticfg_and_slice_ratio: f64,
    second_read_cpu_s: f64,
    second_slice_cpu_s: f64,
    second_process_cpu_s: f64,
    second_ratio: f64,
    peak_bytes: u64,
    peak_bytes_before: u64,
    peak_ratio: f64,
}

impl Row {
    fn second(&self) -> f64 {
        self.second_read_cpu_s + self.second_slice_cpu_s
    }

    fn with_ratios(mut self) -> Row {
        self.ticfg_and_slice_ratio = (self.ticfg_cpu_s + self.slice_cpu_s) / self.clang_cpu_s;
        self.second_ratio = self.second() / self.clang_cpu_s;
        self.peak_ratio = self.peak_bytes as f64 / self.bitcode_bytes as f64;
        self
    }

    fn line(&self) -> String {
        let percent = |ratio: f64| format!("{:.2}%", 100.0 * ratio);
        let seconds = |value: f64| format!("{value:.3}");
        let cells = [
            self.program.clone(),
            format!("{:.2}", self.bitcode_bytes as f64 / 1e6),
            format!("{:.2}", self.clang_cpu_s),
            seconds(self.load_cpu_s),
            seconds(self.ticfg_cpu_s),
            seconds(self.slice_cpu_s),
            seconds(self.plan_cpu_s),
            percent(self.ticfg_and_slice_ratio),
            format!("{:.1}", self.peak_bytes as f64 / 1e6),
            format!("{:.1}×", self.peak_ratio),
            format!("{:.1}", 1000.0 * self.second()),
            percent(self.second_ratio),
        ];
        tables::line(&COLUMNS, &cells)
    }
}

struct Bench {
    failsketch: PathBuf,
    programs: PathBuf,
}

impl Bench {
    fn find() -> Result<Bench> {
        let failsketch = std::env::var_os("FAILSKETCH").map(PathBuf::from).context(
            "FAILSKETCH must name a release build of the command: use ./dev bench slicer",
        )?;
        let target = std::env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into());
        Ok(Bench {
            failsketch,
            programs: Path::new(&target).join("real-programs"),
        })
    }

    fn store(&self) -> PathBuf {
        self.programs.join("store")
    }

    fn measure(&self, subject: &Subject) -> Result<Row> {
        let build = match self.registered(subject.program)? {
            Some(build) => build,
            None => {
                self.register(subject.program)?;
                let build = self.registered(subject.program)?;
                build.with_context(|| format!("{} was not registered", subject.program))?
            }
        };
        let modules = build["modules"].as_array().context("a build has modules")?;
        let id = build["build_id"].as_str().context("a build has an id")?;
        let mut row = Row {
            program: subject.program.to_owned(),
            ..Row::default()
        };
        for module in modules {
            let blob = module["bitcode"].as_str().context("a module's bitcode")?;
            row.bitcode_bytes += fs::metadata(self.store().join("blobs").join(blob))?.len();
        }
        let clang: Vec<f64> = (0..COMPILED)
            .map(|_| compile_all(modules))
            .collect::<Result<_>>()?;
        row.clang_cpu_s = middle(clang);

        let at = self.start(subject, modules, id)?;
        let fresh = self.reports(id, &at, &["--from-bitcode"], FROM_BITCODE)?;
        row.load_cpu_s = phase(&fresh, "load");
        row.ticfg_cpu_s = phase(&fresh, "ticfg");
        row.slice_cpu_s = phase(&fresh, "slice");
        row.plan_cpu_s = phase(&fresh, "plan");
        let most = |key: &str| fresh.iter().filter_map(|r| r[key].as_u64()).max();
        row.peak_bytes = most("peak_kb").unwrap_or(0) * 1024;
        row.peak_bytes_before = most("peak_kb_before").unwrap_or(0) * 1024;
        row.statements_in_slice = most("statements").unwrap_or(0);

        let stored = self.reports(id, &at, &[], FROM_GRAPH)?;
        row.second_read_cpu_s = phase(&stored, "graph");
        row.second_slice_cpu_s = phase(&stored, "slice");
        let process = stored.iter().filter_map(|r| r["process_cpu_us"].as_f64());
        row.second_process_cpu_s = middle(process) / 1e6;
        Ok(row.with_ratios())
    }

    fn registered(&self, program: &str) -> Result<Option<Value>> {
        let output = Command::new(&self.failsketch)
            .args(["builds", "--json", "--store"])
            .arg(self.store())
            .output()?;
        let builds: Vec<Value> = serde_json::from_slice(&output.stdout)
            .context("`failsketch builds --json` prints the builds")?;
        Ok(builds.into_iter().rev().find(|b| b["program"] == program))
    }

    fn register(&self, program: &str) -> Result<()> {
        eprintln!("building {program} with the wrapper");
        let status = Command::new("bugbase/real-programs.sh")
            .arg(program)
            .env("FAILSKETCH", &self.failsketch)
            .status()
            .context("starting bugbase/real-programs.sh")?;
        if !status.success() {
            bail!("bugbase/real-programs.sh could not build {program}");
        }
        Ok(())
    }

    /// The first line with the subject's text at which there is a statement.
    fn start(&self, subject: &Subject, modules: &[Value], id: &str) -> Result<String> {
        let sources = modules.iter().filter_map(|m| m["source"].as_str());
        let mut files = sources.filter(|s| Path::new(s).ends_with(subject.file));
        let file = files
            .next()
            .with_context(|| format!("no {}", subject.file))?;
        let text = String::from_utf8_lossy(&fs::read(file)?).into_owned();
        let lines = (1..).zip(text.lines());
        let wanted = lines.filter(|(_, line)| line.trim().starts_with(subject.line));
        let mut places = wanted.map(|(number, _)| format!("{}:{number}", subject.file));
        // Also makes sure that the graph is stored.
        let found = places.find(|at| self.report(id, at, &[]).is_ok());
        found.with_context(|| format!("no statement `{}` in {file}", subject.line))
    }

    fn reports(&self, id: &str, at: &str, more: &[&str], count: usize) -> Result<Vec<Value>> {
        (0..count).map(|_| self.report(id, at, more)).collect()
    }

    fn report(&self, id: &str, at: &str, more: &[&str]) -> Result<Value> {
        let output = Command::new(&self.failsketch)
            .args(["slice", "--timings", "--build", id, "--at", at, "--store"])
            .arg(self.store())
            .args(more)
            .output()?;
        if !output.status.success() {
            bail!("{}", String::from_utf8_lossy(&output.stderr).trim());
        }
        Ok(serde_json::from_slice(&output.stdout)?)
    }
}

fn phase(reports: &[Value], name: &str) -> f64 {
    let times = reports
        .iter()
        .filter_map(|report| report["phases"][name]["cpu_us"].as_f64());
    middle(times) / 1e6
}

fn middle(values: impl IntoIterator<Item = f64>) -> f64 {
    median(values).unwrap_or(f64::NAN)
}

/// CPU seconds of compiling all modules from their sources.
fn compile_all(modules: &[Value]) -> Result<f64> {
    let before = children()?;
    let folder = std::env::temp_dir().join(format!("failsketch-bench-{}", std::process::id()));
    fs::create_dir_all(&folder)?;
    let compiled = modules.iter().try_for_each(|m| compile(m, &folder));
    fs::remove_dir_all(&folder)?;
    compiled?;
    Ok(children()? - before)
}

fn compile(module: &Value, folder: &Path) -> Result<()> {
    let source = module["source"].as_str().context("a module's source")?;
    let flags = module["flags"].as_array().context("a module's flags")?;
    let flags = flags.iter().filter_map(Value::as_str).collect::<Vec<_>>();
    let directory = flags
        .iter()
        .find_map(|flag| flag.strip_prefix("-fdebug-compilation-dir="))
        .context("a module's directory")?;
    let is_cpp = Path::new(source).extension().is_some_and(|e| e != "c");
    let output = Command::new("clang-19")
        .args(plain(&flags))
        .args(["-w", "-Wno-reserved-user-defined-literal", "-x"])
        .arg(if is_cpp { "c++" } else { "c" })
        .arg("-o")
        .arg(folder.join("module.o"))
        .arg(source)
        .current_dir(directory)
        .output()
        .context("starting clang-19")?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        bail!("clang-19 does not compile {source}: {}", said.trim());
    }
    Ok(())
}

/// The flags without debug info, embedded bitcode and lists of dependencies.
fn plain<'a>(flags: &[&'a str]) -> Vec<&'a str> {
    let dropped = [
        "-debug-info-kind",
        "-dwarf-version",
        "-debugger-tuning",
        "-fembed-bitcode",
        "-sys-header-deps",
        "-MP",
    ];
    let with_value = ["-dependency-file", "-MT"];
    let mut result = Vec::new();
    let mut flags = flags.iter();
    while let Some(flag) = flags.next() {
        if with_value.contains(flag) {
            flags.next();
        } else if !dropped.iter().any(|start| flag.starts_with(start)) {
            result.push(*flag);
        }
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_lose_debug_info_and_what_writes_other_files() {
        let flags = [
            "-cc1",
            "-emit-obj",
            "-debug-info-kind=constructor",
            "-dependency-file",
            "x.Tpo",
            "-MT",
            "x.o",
            "-O2",
            "-fembed-bitcode=all",
        ];
        assert_eq!(plain(&flags), ["-cc1", "-emit-obj", "-O2"]);
    }

    #[test]
    fn a_row_says_shares_of_clang_and_multiples_of_bitcode() {
        let row = Row {
            program: "p".to_owned(),
            bitcode_bytes: 2_000_000,
            clang_cpu_s: 10.0,
            ticfg_cpu_s: 0.2,
            slice_cpu_s: 0.1,
            second_read_cpu_s: 0.01,
            second_slice_cpu_s: 0.01,
            peak_bytes: 30_000_000,
            ..Row::default()
        }
        .with_ratios();
        let line = row.line();
        assert!(line.contains(" 3.00% "), "{line}");
        assert!(line.contains(" 15.0× "), "{line}");
        assert!(line.ends_with(" 0.20% |"), "{line}");
        assert_eq!(line.matches('|').count(), COLUMNS.len() + 1);
        assert_eq!(serde_json::to_value(&row).unwrap()["second_ratio"], 0.002);
    }
}
