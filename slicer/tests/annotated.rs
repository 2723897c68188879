//! Ground truth on the line: every program under tests/programs/slice/.
//!
//! What the annotations mean is said in `common/corpus.rs`. All programs are
//! checked before the test fails, so that one run shows all that is wrong.

mod common;
#[path = "common/corpus.rs"]
mod corpus;

use corpus::{Annotated, MODES, Score, programs};
use slicer::Alias;

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
