//! The bugs: one folder each, described by its `bug.toml`.
//!
//! Here are the words of that file and its loading; `check` says whether what it
//! claims can be true of the sources beside it, `workload` what one run is given.
//! Statements are named by function and exact source text, never by line number:
//! an edit elsewhere in the file must not make a description false.

use crate::corpus::check::{check, find_statement, find_statements};
use crate::corpus::workload::Workload;
use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};
use std::fs;
use std::path::{Path, PathBuf};

/// A bug as its folder describes it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bug {
    /// The same as its folder's.
    pub name: String,
    /// The program and version that had the fault, or "miniature".
    pub program: String,
    pub summary: String,
    /// What kind of fault it is, for readers of the table.
    pub kind: String,
    pub nature: Nature,
    pub group: Group,
    pub build: Build,
    pub workload: Workload,
    pub failure: Failure,
    pub ideal: Ideal,
    /// What `./dev bench overhead` runs; of real programs only.
    pub overhead: Option<Overhead>,
    #[serde(skip)]
    pub folder: PathBuf,
    /// Where the sources are, for a package once it is built; until then nothing
    /// can be said about its statements.
    #[serde(skip)]
    pub tree: Option<PathBuf>,
}

/// Whether the failure depends on the schedule or on the input alone.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum Nature {
    Concurrent,
    Sequential,
}

/// Which part of the corpus it belongs to.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum Group {
    /// One of the eleven failures of the published evaluation.
    Paper,
    /// What that evaluation did not cover.
    Further,
    /// A current release of a real program with a historical fault put back.
    Real,
}

/// How the program comes about: compiled from sources of the folder, or built
/// from a source package of Debian's with our patches.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Build {
    #[serde(default)]
    pub language: Language,
    /// Of the folder; with a package, the files of its tree in which the ideal
    /// sketch's statements stand.
    pub sources: Vec<String>,
    #[serde(default)]
    pub flags: Vec<String>,
    /// Flags that build the program with the fix.
    #[serde(default)]
    pub fixed_flags: Vec<String>,
    /// The source package, one of those that `real-programs.sh` knows.
    pub package: Option<String>,
    /// Patches of the folder for both programs, faulty and fixed ...
    #[serde(default)]
    pub patches: Vec<String>,
    /// ... and those that put the fault back.
    #[serde(default)]
    pub fault: Vec<String>,
    /// A shell file of the folder that builds the tree, where the package's own
    /// way will not do.
    pub recipe: Option<String>,
    /// What that recipe makes, in the tree.
    pub binary: Option<String>,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Language {
    #[default]
    C,
    Cpp,
}

/// How a run shows that the fault has struck. Any other end but success is an
/// error of the description.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Failure {
    /// The signals that the program dies of.
    #[serde(default)]
    pub signals: Vec<Signal>,
    #[serde(default)]
    pub exit_codes: Vec<i32>,
    /// Exit codes other than 0 of runs in which the fault has not struck.
    #[serde(default)]
    pub fine_exit_codes: Vec<i32>,
    /// The program never ends; healthy runs end long before this.
    pub hang_after_ms: Option<u64>,
}

/// A signal that a fault can end a program with, and its number.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "UPPERCASE")]
pub enum Signal {
    Sigill = 4,
    Sigtrap = 5,
    Sigabrt = 6,
    Sigbus = 7,
    Sigfpe = 8,
    Sigsegv = 11,
}

/// Work of the program that is long enough to measure, and where it would fail.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Overhead {
    /// The statement whose slice is tracked; a column is not needed.
    pub at: FailurePoint,
    /// Arguments of a run that ends at once: what remains is starting it.
    pub quick: Vec<String>,
    #[serde(rename = "work")]
    pub works: Vec<Work>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FailurePoint {
    pub function: String,
    pub text: String,
    pub nth: Option<usize>,
    /// It fails by being reached: an abort.
    #[serde(default)]
    pub reached: bool,
}

/// How the cost of a work is measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Measure {
    /// Run by run, each of them tracked.
    #[default]
    Runs,
    /// Over many short runs, of which as many are tracked as the share allows.
    Fleet,
    /// Within one long run, in batches of requests that do not end it.
    Service,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Work {
    pub name: String,
    /// Arguments, with the words of a workload.
    pub arguments: Vec<String>,
    #[serde(default)]
    pub client_arguments: Vec<String>,
    #[serde(default)]
    pub input_bytes: usize,
    /// Arguments of a run whose output becomes the input.
    #[serde(default)]
    pub input_by: Vec<String>,
    /// What it is for.
    #[serde(default)]
    pub measure: Measure,
    /// Program, agent and client share one processor. Where a client and its server
    /// wander, what their switches cost differs by more than anything that is measured.
    #[serde(default)]
    pub pinned: bool,
}

/// The hand-made sketch: what a perfect diagnosis would show.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ideal {
    /// In the order of the failing run.
    #[serde(rename = "statement")]
    pub statements: Vec<IdealStatement>,
    /// Any of these at the head of its class names the cause.
    #[serde(rename = "predictor")]
    pub predictors: Vec<IdealPredictor>,
}

/// A statement of the ideal sketch, in the column of one thread.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub struct IdealStatement {
    /// The letter or name of the column; which thread of a run it is does not matter.
    pub thread: String,
    /// The function as the source spells it, for C++ with its class: "A::f".
    pub function: String,
    /// The whole line without surrounding space.
    pub text: String,
    /// Which of several such lines of the function, from 1.
    pub nth: Option<usize>,
    /// Where it stands, found when the description is loaded.
    #[serde(skip)]
    pub file: String,
    #[serde(skip)]
    pub line: u64,
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum Class {
    Lifetime,
    Order,
    Value,
    Branch,
}

/// Reads and writes in an order; `S` is a wait that never ended.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "UPPERCASE")]
pub enum Pattern {
    Rwr,
    Wwr,
    Rww,
    Wrw,
    Rws,
    Ww,
    Wr,
    Rw,
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum Shape {
    Zero,
    NonZero,
    Equals,
    Negative,
    Unwritten,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct IdealPredictor {
    pub class: Class,
    /// Of an order, which needs it.
    pub pattern: Option<Pattern>,
    /// "queue.mut" or the name of a global; any location if left out.
    pub location: Option<String>,
    /// Of a value; any shape if left out.
    pub shape: Option<Shape>,
    /// What the text of each of its statements contains, in its order.
    pub statements: Vec<String>,
}

impl Bug {
    /// The name and text of each of its sources; none of a package that is not
    /// built yet.
    pub fn sources(&self) -> Result<Vec<(String, String)>> {
        let Some(tree) = &self.tree else {
            return Ok(Vec::new());
        };
        let read = |source: &String| {
            let path = tree.join(source);
            let bytes = fs::read(&path)
                .with_context(|| format!("reading {}, a source of it", path.display()))?;
            let name = source.rsplit('/').next().unwrap_or(source).to_owned();
            Ok((name, String::from_utf8_lossy(&bytes).into_owned()))
        };
        self.build.sources.iter().map(read).collect()
    }

    /// Where the measured failure would be: "items.c:17".
    pub fn failure_point(&self, at: &FailurePoint) -> Result<String> {
        let mut statement = IdealStatement {
            thread: String::new(),
            function: at.function.clone(),
            text: at.text.clone(),
            nth: at.nth,
            file: String::new(),
            line: 0,
        };
        find_statement(self, &mut statement)?;
        Ok(format!("{}:{}", statement.file, statement.line))
    }

    /// Says where a package's sources are and finds the ideal statements in them.
    pub fn found_in(&mut self, tree: PathBuf) -> Result<()> {
        self.tree = Some(tree);
        find_statements(self).with_context(|| format!("in the description of {}", self.name))
    }
}

/// All bugs, by name.
pub fn all() -> Result<Vec<Bug>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut bugs = Vec::new();
    for entry in fs::read_dir(root).with_context(|| format!("reading {}", root.display()))? {
        let folder = entry?.path();
        if folder.join("bug.toml").is_file() {
            bugs.push(load(&folder)?);
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

/// The bugs of those names, or all if none is named. "paper", "further" and "real"
/// stand for the parts of the corpus.
pub fn chosen(names: &[String]) -> Result<Vec<Bug>> {
    if names.is_empty() {
        return all();
    }
    let mut bugs = Vec::new();
    for name in names {
        match Group::named(name) {
            Some(group) => bugs.extend(all()?.into_iter().filter(|bug| bug.group == group)),
            None => bugs.push(named(name)?),
        }
    }
    Ok(bugs)
}

impl Group {
    pub fn named(name: &str) -> Option<Group> {
        match name {
            "paper" => Some(Group::Paper),
            "further" => Some(Group::Further),
            "real" => Some(Group::Real),
            _ => None,
        }
    }
}

/// Loads one folder; a description that cannot be true is refused.
pub fn load(folder: &Path) -> Result<Bug> {
    let description = folder.join("bug.toml");
    let shown = description.display();
    let text = fs::read_to_string(&description).with_context(|| format!("reading {shown}"))?;
    let mut bug: Bug = toml::from_str(&text).with_context(|| format!("in {shown}"))?;
    bug.folder = folder.to_owned();
    bug.tree = bug.build.package.is_none().then(|| folder.to_owned());
    check(&mut bug).with_context(|| format!("in {shown}"))?;
    Ok(bug)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_folder_of_the_corpus_loads() {
        let bugs = all().unwrap();
        assert!(bugs.iter().any(|bug| bug.name == "pbzip2"));
    }

    #[test]
    fn parts_of_the_corpus_have_names() {
        let count = |names: &[&str]| {
            let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
            chosen(&names).unwrap().len()
        };
        assert_eq!(count(&["paper"]), 11);
        assert_eq!(count(&["paper", "further", "real"]), count(&[]));
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
