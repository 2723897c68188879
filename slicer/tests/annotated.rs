//! Ground truth on the line: every program under tests/programs/slice/.
//!
//! `// FAIL` is the failing line, `// SLICE!` must be in its slice, `// NOSLICE`
//! must not, and `ORDER n` marks lines whose distances must grow with n. A line
//! that begins with `// FLAGS` adds flags for the compiler. `TRACK` has a site in
//! the plan for the whole slice, whatever its purpose, `NOTRACK` has none. All
//! programs are checked before the test fails, so that one run shows all that
//! is wrong.

mod common;

use common::*;
use sketch_model::{Slice, TrackingPlan};
use slicer::{Program, backward_slice, plan_variants};
use std::path::{Path, PathBuf};

fn programs() -> Vec<PathBuf> {
    let entries = std::fs::read_dir(programs_folder()).expect("the folder of programs");
    let mut found: Vec<PathBuf> = entries.map(|e| e.expect("an entry").path()).collect();
    found.sort();
    found
}

fn annotation(line: &str) -> &str {
    line.split_once("//").map_or("", |(_, note)| note)
}

/// Lines, from 1, whose annotation has the word.
fn lines_with(text: &str, word: &str) -> Vec<u32> {
    let lines = text.lines().zip(1..);
    lines
        .filter(|(line, _)| annotation(line).split_whitespace().any(|w| w == word))
        .map(|(_, number)| number)
        .collect()
}

fn distance_of(slice: &Slice, line: u32) -> Option<u32> {
    let entries = slice.entries.iter();
    let on_line = entries.filter(|e| e.statement.location.line == line);
    on_line.map(|e| e.distance).min()
}

/// What is wrong with the slice of one program, in words.
fn check(path: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(path).expect("the program is readable");
    let name = path.file_name().expect("a name").to_string_lossy();
    let flags = text.lines().find_map(|line| line.strip_prefix("// FLAGS "));
    let flags: Vec<&str> = flags.unwrap_or("").split_whitespace().collect();
    let program = load(&compile(path, &flags));
    let failing = lines_with(&text, "FAIL");
    let [failing] = failing.as_slice() else {
        return vec![format!("{name}: needs one FAIL line, has {failing:?}")];
    };
    let Some(id) = program.statement_at(None, &name, *failing) else {
        return vec![format!(
            "{name}:{failing}: no statement on the failing line"
        )];
    };
    let slice = backward_slice(&program, id, &[], &no_source);
    let mut problems = Vec::new();
    if slice.failing().map(|e| e.statement.id) != Some(id) {
        problems.push(format!(
            "{name}: the slice does not begin with its criterion"
        ));
    }
    for line in lines_with(&text, "SLICE!") {
        if distance_of(&slice, line).is_none() {
            problems.push(format!("{name}:{line} is missing from the slice"));
        }
    }
    for line in lines_with(&text, "NOSLICE") {
        if program.statement_at(None, &name, line).is_none() {
            problems.push(format!("{name}:{line} is annotated but has no statement"));
        }
        let entry = slice
            .entries
            .iter()
            .find(|e| e.statement.location.line == line);
        if let Some(entry) = entry {
            let why = entry
                .why
                .as_ref()
                .expect("only the criterion has no reason");
            let parent = slice.entry(why.parent).expect("a parent is in the slice");
            let parent = &parent.statement.location;
            let kind = why.kind;
            problems.push(format!("{name}:{line} is in the slice: {kind} {parent}"));
        }
    }
    problems.extend(tracking_problems(&text, &name, &program, &slice));
    let ordered: Vec<Option<u32>> = (1..)
        .map(|n| {
            let lines = text.lines().zip(1..);
            let mut marked = lines.filter(|(l, _)| annotation(l).ends_with(&format!("ORDER {n}")));
            marked.next().map(|(_, line)| line)
        })
        .take_while(Option::is_some)
        .map(|line| distance_of(&slice, line?))
        .collect();
    let all_there = ordered.iter().all(Option::is_some);
    if !all_there || !ordered.windows(2).all(|pair| pair[0] < pair[1]) {
        problems.push(format!("{name}: ORDER distances are {ordered:?}"));
    }
    problems
}

/// What is wrong with the plan for the whole slice, in words.
fn tracking_problems(text: &str, name: &str, program: &Program, slice: &Slice) -> Vec<String> {
    let sigma = slice.entries.len() as u32;
    let plans = plan_variants(program, slice, sigma, &[], &no_source);
    let has_site = |plan: &TrackingPlan, line: u32| {
        let on_line = plan.all_statements().filter(|s| s.location.line == line);
        let on_line: Vec<_> = on_line.map(|s| s.id).collect();
        plan.sites.iter().any(|s| on_line.contains(&s.statement))
    };
    let mut problems = Vec::new();
    for (word, wanted) in [("TRACK", true), ("NOTRACK", false)] {
        for line in lines_with(text, word) {
            if program.statement_at(None, name, line).is_none() {
                problems.push(format!("{name}:{line} is annotated but has no statement"));
            }
            if plans.iter().any(|plan| has_site(plan, line) != wanted) {
                let has = if wanted { "no" } else { "a" };
                problems.push(format!("{name}:{line} has {has} site"));
            }
        }
    }
    problems
}

#[test]
fn tracking_is_claimed_both_ways_in_many_programs() {
    let count = |word: &str| {
        let texts = programs().into_iter();
        let texts = texts.map(|p| std::fs::read_to_string(p).expect("a readable program"));
        texts
            .filter(|text| !lines_with(text, word).is_empty())
            .count()
    };
    assert!(count("TRACK") >= 15, "{}", count("TRACK"));
    assert!(count("NOTRACK") >= 15, "{}", count("NOTRACK"));
}

#[test]
fn slices_hold_what_they_must_and_nothing_they_must_not() {
    let programs = programs();
    assert!(programs.len() >= 100, "only {} programs", programs.len());
    let problems: Vec<String> = programs.iter().flat_map(|p| check(p)).collect();
    assert!(problems.is_empty(), "\n{}", problems.join("\n"));
}

#[test]
fn every_program_makes_a_claim_both_ways() {
    for path in programs() {
        let text = std::fs::read_to_string(&path).expect("the program is readable");
        let must = lines_with(&text, "SLICE!").len();
        let must_not = lines_with(&text, "NOSLICE").len();
        assert!(
            must > 0 && must_not > 0,
            "{} claims too little",
            path.display()
        );
    }
}

#[test]
fn the_same_bitcode_gives_the_same_slice() {
    let path = programs_folder().join("pbzip2_queue.c");
    let text = std::fs::read_to_string(&path).expect("the program is readable");
    let failing = lines_with(&text, "FAIL");
    let bitcode = compile(&path, &[]);
    let slices: Vec<Slice> = (0..3)
        .map(|_| {
            let program = load(&bitcode);
            let id = program.statement_at(None, "pbzip2_queue.c", failing[0]);
            backward_slice(&program, id.expect("the failing line"), &[], &no_source)
        })
        .collect();
    assert_eq!(slices[0], slices[1]);
    assert_eq!(slices[1], slices[2]);
    assert!(slices[0].entries.len() > 5);
}
