//! The annotated programs: what each claims, and what a slice makes of it.
//!
//! `// FAIL` is the failing line, `// SLICE!` must be in its slice, `// NOSLICE`
//! must not, and `ORDER n` marks lines whose distances must grow with n. A line
//! that begins with `// FLAGS` adds flags for the compiler; one that begins with
//! `// ABORT` says that only reaching the failing line counts, and `STACK n`
//! marks the callers' lines, innermost first. `// ALIAS MODE…` says with which
//! alias modes the claims hold, where it is not both. `TRACK` has a site in
//! the plan for the whole slice, whatever its purpose, `NOTRACK` has none. `WITHIN n` is
//! among the first n statements of the slice; a line that begins with `// HANG` says
//! that a thread did not go on from the failing line.

#![allow(dead_code)] // Each test uses its part.

use super::{compile, load, no_source, programs_folder};
use sketch_model::{Slice, StatementId};
use slicer::{Alias, Criterion, Extent, Program, slice_from};
use std::path::{Path, PathBuf};

pub const MODES: [Alias; 2] = [Alias::Field, Alias::Andersen];

pub fn programs() -> Vec<PathBuf> {
    let entries = std::fs::read_dir(programs_folder()).expect("the folder of programs");
    let mut found: Vec<PathBuf> = entries.map(|e| e.expect("an entry").path()).collect();
    found.sort();
    found
}

fn annotation(line: &str) -> &str {
    line.split_once("//").map_or("", |(_, note)| note)
}

/// A program with what it claims.
pub struct Annotated {
    pub name: String,
    pub text: String,
    pub program: Program,
}

/// How many claims of each kind a slice got right, and what is wrong, in words.
#[derive(Debug, Default)]
pub struct Score {
    pub must: usize,
    pub must_right: usize,
    pub must_not: usize,
    pub must_not_right: usize,
    pub problems: Vec<String>,
}

impl Score {
    pub fn add(&mut self, other: Score) {
        self.must += other.must;
        self.must_right += other.must_right;
        self.must_not += other.must_not;
        self.must_not_right += other.must_not_right;
        self.problems.extend(other.problems);
    }
}

impl Annotated {
    pub fn load(path: &Path) -> Annotated {
        let text = std::fs::read_to_string(path).expect("the program is readable");
        let flags = text.lines().find_map(|line| line.strip_prefix("// FLAGS "));
        let flags: Vec<&str> = flags.unwrap_or("").split_whitespace().collect();
        let name = path.file_name().expect("a name").to_string_lossy();
        Annotated {
            name: name.into_owned(),
            program: load(&compile(path, &flags)),
            text,
        }
    }

    /// Lines, from 1, whose annotation has the word.
    pub fn lines_with(&self, word: &str) -> Vec<u32> {
        let lines = self.text.lines().zip(1..);
        lines
            .filter(|(line, _)| annotation(line).split_whitespace().any(|w| w == word))
            .map(|(_, number)| number)
            .collect()
    }

    /// Lines that claim a place among the first so many statements.
    fn claimed_ranks(&self) -> Vec<(u32, usize)> {
        let lines = (1..).zip(self.text.lines());
        let claim = |(number, line): (u32, &str)| {
            let mut words = annotation(line).split_whitespace();
            words.find(|word| *word == "WITHIN")?;
            let most = words
                .next()?
                .parse()
                .expect("WITHIN is followed by a number");
            Some((number, most))
        };
        lines.filter_map(claim).collect()
    }

    /// The lines marked with the word and 1, 2, 3 and so on.
    fn numbered(&self, word: &str) -> Vec<u32> {
        let marked = |n: u32| {
            let mut lines = self.text.lines().zip(1..);
            let found = lines.find(|(l, _)| annotation(l).ends_with(&format!("{word} {n}")));
            found.map(|(_, line)| line)
        };
        (1..).map_while(marked).collect()
    }

    pub fn statement(&self, line: u32) -> Option<StatementId> {
        self.program.statement_at(None, &self.name, line)
    }

    /// The alias modes with which the claims are meant to hold.
    pub fn modes(&self) -> Vec<Alias> {
        let line = self.text.lines().find_map(|l| l.strip_prefix("// ALIAS "));
        match line {
            None => MODES.to_vec(),
            Some(words) => {
                let words = words.split_whitespace();
                words.map(|w| w.parse().expect("an alias mode")).collect()
            }
        }
    }

    pub fn criterion(&self) -> Criterion {
        let failing = self.lines_with("FAIL");
        let [failing] = failing.as_slice() else {
            panic!("{}: needs one FAIL line, has {failing:?}", self.name);
        };
        let id = self.statement(*failing);
        let failing = id.unwrap_or_else(|| panic!("{}:{failing}: no statement", self.name));
        let stack = self.numbered("STACK");
        Criterion {
            failing,
            stack: stack
                .iter()
                .filter_map(|line| self.statement(*line))
                .collect(),
            reached: self.text.lines().any(|line| line.starts_with("// ABORT")),
            waits: self.text.lines().any(|line| line.starts_with("// HANG")),
        }
    }

    pub fn slice(&self, alias: Alias) -> Slice {
        let criteria = [self.criterion()];
        slice_from(&self.program, &criteria, alias, Extent::Whole, &no_source)
    }

    pub fn score(&self, alias: Alias) -> Score {
        let name = &self.name;
        let slice = self.slice(alias);
        let mut score = Score::default();
        let first = slice.failing().map(|e| e.statement.id);
        if first != Some(self.criterion().failing) {
            let problem = format!("{name}: the slice does not begin with its criterion");
            score.problems.push(problem);
        }
        for line in self.lines_with("SLICE!") {
            score.must += 1;
            match distance_of(&slice, line) {
                Some(_) => score.must_right += 1,
                None => score
                    .problems
                    .push(format!("{name}:{line} is missing from the slice")),
            }
        }
        for line in self.lines_with("NOSLICE") {
            if self.statement(line).is_none() {
                let problem = format!("{name}:{line} is annotated but has no statement");
                score.problems.push(problem);
            }
            score.must_not += 1;
            let mut entries = slice.entries.iter();
            let Some(entry) = entries.find(|e| e.statement.location.line == line) else {
                score.must_not_right += 1;
                continue;
            };
            let why = entry
                .why
                .as_ref()
                .expect("only the criterion has no reason");
            let parent = slice.entry(why.parent).expect("a parent is in the slice");
            let (kind, parent) = (why.kind, &parent.statement.location);
            let problem = format!("{name}:{line} is in the slice: {kind} {parent}");
            score.problems.push(problem);
        }
        for (line, most) in self.claimed_ranks() {
            let mut entries = slice.entries.iter();
            let place = entries.position(|e| e.statement.location.line == line);
            if place.is_none_or(|place| place >= most) {
                let place = place.map(|place| place + 1);
                let problem = format!("{name}:{line} has rank {place:?}, not within {most}");
                score.problems.push(problem);
            }
        }
        let ordered = self.numbered("ORDER").into_iter();
        let ordered: Vec<Option<u32>> = ordered.map(|line| distance_of(&slice, line)).collect();
        let all_there = ordered.iter().all(Option::is_some);
        if !all_there || !ordered.windows(2).all(|pair| pair[0] < pair[1]) {
            let problem = format!("{name}: ORDER distances are {ordered:?}");
            score.problems.push(problem);
        }
        score
    }
}

fn distance_of(slice: &Slice, line: u32) -> Option<u32> {
    let entries = slice.entries.iter();
    let on_line = entries.filter(|e| e.statement.location.line == line);
    on_line.map(|e| e.distance).min()
}
