//! The bugs: one folder each, described by its `bug.toml`.

use anyhow::{Context, Result, bail};
use serde::Deserialize;
use std::fs;
use std::path::{Path, PathBuf};

/// A bug as its folder describes it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bug {
    pub name: String,
    pub summary: String,
    /// What kind of fault it is, for readers of the table.
    pub kind: String,
    pub build: Build,
    pub workload: Workload,
    pub ideal: Ideal,
    #[serde(skip)]
    pub folder: PathBuf,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Build {
    pub language: Language,
    pub sources: Vec<String>,
    pub flags: Vec<String>,
    /// Flags that build the program with the historical fix; a test uses them.
    #[cfg_attr(not(test), expect(dead_code))]
    pub fixed_flags: Vec<String>,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Language {
    C,
    Cpp,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Workload {
    pub arguments: Vec<String>,
    pub input_bytes: usize,
}

/// The hand-made sketch: what a perfect diagnosis would show.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ideal {
    /// In order; a test finds them in the sources.
    #[cfg_attr(not(test), expect(dead_code))]
    pub statements: Vec<String>,
    pub predictor: IdealPredictor,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct IdealPredictor {
    pub pattern: String,
    pub location: String,
    pub first: String,
    /// What the text of the statement that comes second contains.
    pub then_reads: String,
}

/// All bugs, by name.
pub fn all() -> Result<Vec<Bug>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut bugs = Vec::new();
    for entry in fs::read_dir(root).with_context(|| format!("reading {}", root.display()))? {
        let folder = entry?.path();
        let description = folder.join("bug.toml");
        if description.is_file() {
            bugs.push(load(&folder, &description)?);
        }
    }
    bugs.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(bugs)
}

/// The bug of that name.
pub fn named(name: &str) -> Result<Bug> {
    let mut bugs = all()?;
    match bugs.iter().position(|bug| bug.name == name) {
        Some(position) => Ok(bugs.swap_remove(position)),
        None => {
            let names: Vec<_> = bugs.iter().map(|bug| bug.name.as_str()).collect();
            bail!("there is no bug {name:?}; there are: {}", names.join(", "))
        }
    }
}

fn load(folder: &Path, description: &Path) -> Result<Bug> {
    let text = fs::read_to_string(description)
        .with_context(|| format!("reading {}", description.display()))?;
    let mut bug: Bug =
        toml::from_str(&text).with_context(|| format!("in {}", description.display()))?;
    bug.folder = folder.to_owned();
    Ok(bug)
}

impl Workload {
    /// The program's arguments for one agent.
    pub fn arguments(&self, input: &Path, output: &Path) -> Vec<String> {
        let fill = |argument: &String| {
            argument
                .replace("{input}", &input.to_string_lossy())
                .replace("{output}", &output.to_string_lossy())
        };
        self.arguments.iter().map(fill).collect()
    }

    /// Input that a compressor finds neither trivial nor hopeless: runs of
    /// random length, the same on every machine.
    pub fn input(&self) -> Vec<u8> {
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        let mut next = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state
        };
        let mut input = Vec::with_capacity(self.input_bytes);
        while input.len() < self.input_bytes {
            let random = next();
            let run = 1 + (random >> 8) as usize % 4;
            input.extend(std::iter::repeat_n(random as u8, run));
        }
        input.truncate(self.input_bytes);
        input
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn every_ideal_statement_stands_in_the_sources() {
        let bugs = all().unwrap();
        assert!(!bugs.is_empty());
        for bug in bugs {
            let sources: String = bug
                .build
                .sources
                .iter()
                .map(|source| fs::read_to_string(bug.folder.join(source)).unwrap())
                .collect();
            let lines: Vec<_> = sources.lines().map(str::trim).collect();
            for statement in &bug.ideal.statements {
                assert!(
                    lines.contains(&statement.as_str()),
                    "{}: the sources have no line {statement:?}",
                    bug.name
                );
            }
        }
    }

    /// The fault is the one that the historical fix repairs. That the unfixed
    /// program does fail is shown by every diagnosis of it.
    #[test]
    fn the_fixed_program_never_fails() {
        let scratch = std::env::temp_dir().join(format!("bugbase-fixed-{}", std::process::id()));
        fs::create_dir_all(&scratch).unwrap();
        for bug in all().unwrap() {
            let program = scratch.join(&bug.name);
            let compiler = match bug.build.language {
                Language::C => "clang-19",
                Language::Cpp => "clang++-19",
            };
            let compiled = Command::new(compiler)
                .args(&bug.build.flags)
                .args(&bug.build.fixed_flags)
                .args(bug.build.sources.iter().map(|s| bug.folder.join(s)))
                .arg("-o")
                .arg(&program)
                .status()
                .unwrap();
            assert!(compiled.success());
            let input = scratch.join("input");
            fs::write(&input, bug.workload.input()).unwrap();
            let output = scratch.join("output");
            for run in 0..300 {
                let ended = Command::new(&program)
                    .args(bug.workload.arguments(&input, &output))
                    .output()
                    .unwrap();
                assert!(ended.status.success(), "{} run {run}: {ended:?}", bug.name);
            }
        }
        fs::remove_dir_all(&scratch).unwrap();
    }

    #[test]
    fn an_unknown_bug_is_answered_with_the_known_ones() {
        let refusal = named("heisenbug").unwrap_err().to_string();
        assert!(
            refusal.contains("\"heisenbug\"") && refusal.contains("pbzip2"),
            "{refusal}"
        );
    }
}
