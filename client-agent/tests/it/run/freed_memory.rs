//! Memory that is used after it was freed: the record has who freed it. Memory that was
//! handed out again never is, and programs with an allocator of their own are not judged.

use crate::common::{Workshop, function_at};
use sketch_model::{FreedBlock, Gap, LifetimeObstacle, RunRecord};
use std::process::Command;

fn run(how: &str, flags: &[&str]) -> (Workshop, RunRecord) {
    let workshop = Workshop::new();
    let pair = workshop.compile_pair_of("freed", flags);
    let (_, record) = workshop.record_tracked(&pair, &[how]);
    (workshop, record)
}

fn freed(record: &RunRecord) -> &[FreedBlock] {
    record.freed.as_deref().expect("lifetimes were observed")
}

fn who_freed(workshop: &Workshop, block: &FreedBlock) -> Vec<Option<String>> {
    let program = workshop.path("tracked");
    let own = block
        .frames
        .iter()
        .filter(|f| f.module.ends_with("/program"));
    own.map(|frame| function_at(&program, frame.lookup.0))
        .collect()
}

#[test]
fn a_block_that_another_thread_freed_before_it_was_used_is_recorded() {
    let (workshop, record) = run("used", &[]);
    let [block] = freed(&record) else {
        panic!("one block: {:?} {:?}", record.freed, record.gaps);
    };
    assert_eq!(block.until, None);
    assert!(block.size >= 72 && !block.at_fault);
    assert_ne!(block.tid, record.threads[0].tid);
    let who = who_freed(&workshop, block);
    let who: Vec<&str> = who.iter().flatten().map(String::as_str).collect();
    assert_eq!(who[..2], ["discard", "discarding"], "{:?}", block.frames);
}

#[test]
fn a_crash_with_a_freed_block_in_its_hands_says_so() {
    let (workshop, record) = run("crash", &[]);
    assert!(record.failed());
    let held = |block: &&FreedBlock| !block.registers.is_empty() || !block.places.is_empty();
    let held: Vec<&FreedBlock> = freed(&record).iter().filter(held).collect();
    let [block] = held.as_slice() else {
        panic!("one block: {:?} {:?}", record.freed, record.gaps);
    };
    assert_eq!(who_freed(&workshop, block)[0].as_deref(), Some("discard"));
}

#[test]
fn memory_that_is_in_use_is_never_recorded_as_freed() {
    for how in ["fixed", "reused", "grown", "inside"] {
        let (_, record) = run(how, &[]);
        assert_eq!(freed(&record), [], "{how}");
    }
}

#[test]
fn a_program_with_an_allocator_of_its_own_is_not_judged_and_says_so() {
    let (_, record) = run("used", &["-DOWN_ALLOCATOR"]);
    assert_eq!(record.freed, None);
    let because = LifetimeObstacle::OwnAllocator;
    assert!(record.gaps.contains(&Gap::LifetimesNotObserved { because }));
}

#[test]
fn only_control_flow_leaves_out_who_freed_what() {
    let workshop = Workshop::new();
    let pair = workshop.compile_pair_of("freed", &[]);
    let (_, shapes) = workshop.record_tracked_with(&["--privacy", "shapes"], &pair, &["used"]);
    assert_eq!(freed(&shapes).len(), 1);
    let options = &["--privacy", "control-flow-only"];
    let (_, record) = workshop.record_tracked_with(options, &pair, &["used"]);
    assert_eq!(record.freed, None);
    let because = LifetimeObstacle::Withheld;
    assert!(record.gaps.contains(&Gap::LifetimesNotObserved { because }));
}

#[test]
fn a_program_that_allocates_everywhere_behaves_as_without_us() {
    let workshop = Workshop::new();
    let pair = workshop.compile_pair_of("freed", &[]);
    let alone = Command::new(&pair.0)
        .arg("churn")
        .output()
        .expect("it starts");
    let (output, record) = workshop.record_tracked(&pair, &["churn"]);
    assert_eq!(output.status.code(), alone.status.code());
    assert_eq!(output.stdout, alone.stdout);
    assert_eq!(alone.status.code(), Some(3));
    assert!(record.freed.is_some(), "{:?}", record.gaps);
}
