//! Ground truth on the line: every program under tests/programs/slice/.
//!
//! What the annotations mean is said in `common/corpus.rs`. All programs are
//! checked before the test fails, so that one run shows all that is wrong.

use crate::common;
use crate::common::corpus::{Annotated, MODES, Score, programs};
use crate::common::no_source;
use sketch_model::TrackingPlan;
use slicer::{Alias, PlanRequest, plan_iteration};

/// What is wrong with the plan for the whole slice, in words.
fn tracking_problems(program: &Annotated) -> Vec<String> {
    let name = &program.name;
    let slice = program.slice(Alias::default());
    let sigma = slice.entries.len() as u32;
    let ask = PlanRequest::all(sigma);
    let plans = plan_iteration(&program.program, &slice, &ask, &no_source).plans;
    let has_site = |plan: &TrackingPlan, line: u32| {
        let on_line = plan.all_statements().filter(|s| s.location.line == line);
        let on_line: Vec<_> = on_line.map(|s| s.id).collect();
        plan.sites.iter().any(|s| on_line.contains(&s.statement))
    };
    let mut problems = Vec::new();
    for (word, wanted) in [("TRACK", true), ("NOTRACK", false)] {
        for line in program.lines_with(word) {
            if program.statement(line).is_none() {
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
fn plans_have_hooks_where_they_must_and_not_where_they_need_none() {
    let mut claims = [("TRACK", 0), ("NOTRACK", 0)];
    let mut problems = Vec::new();
    for path in programs() {
        let text = std::fs::read_to_string(&path).expect("a readable program");
        if !text.contains("TRACK") {
            continue;
        }
        let program = Annotated::load(&path);
        problems.extend(tracking_problems(&program));
        for (word, count) in &mut claims {
            *count += usize::from(!program.lines_with(word).is_empty());
        }
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
    for (word, count) in claims {
        assert!(count >= 15, "{word} is claimed in {count} programs only");
    }
}

#[test]
fn slices_hold_what_they_must_and_nothing_they_must_not() {
    let programs = programs();
    assert!(programs.len() >= 140, "only {} programs", programs.len());
    let mut scores = MODES.map(|mode| (mode, Score::default(), Vec::new()));
    for path in &programs {
        let program = Annotated::load(path);
        let meant = program.modes();
        for (mode, total, wrong) in &mut scores {
            let mut score = program.score(*mode);
            if meant.contains(mode) {
                wrong.append(&mut score.problems);
            }
            total.add(score);
        }
    }
    println!("{} annotated programs", programs.len());
    for (mode, total, wrong) in &scores {
        println!(
            "alias {mode}: {} of {} SLICE!, {} of {} NOSLICE, {} not as meant\n{}",
            total.must_right,
            total.must,
            total.must_not_right,
            total.must_not,
            wrong.len(),
            wrong.join("\n")
        );
    }
    for (mode, _, wrong) in &scores {
        assert!(wrong.is_empty(), "alias {mode}:\n{}", wrong.join("\n"));
    }
}

#[test]
fn every_program_makes_a_claim_both_ways() {
    for path in programs() {
        let text = std::fs::read_to_string(&path).expect("the program is readable");
        let has = |word: &str| text.split_whitespace().any(|w| w == word);
        assert!(
            has("SLICE!") && has("NOSLICE"),
            "{} claims too little",
            path.display()
        );
    }
}

#[test]
fn the_same_bitcode_gives_the_same_slice() {
    let path = common::programs_folder().join("pbzip2_queue.c");
    for mode in MODES {
        let slices = [(); 3].map(|()| Annotated::load(&path).slice(mode));
        assert_eq!(slices[0], slices[1]);
        assert_eq!(slices[1], slices[2]);
        assert!(slices[0].entries.len() > 5);
    }
    assert_eq!(Alias::default(), Alias::Field);
}
