//! Threads tire of hooks: what a hook that is passed by costs, what is told all the same, and
//! that hooks leave registers and unwinding alone.

use crate::common::{Built, Ran, build, run, stepper};
use instrumenter::{Refusal, TrackedBuild, Way, track, track_by_relinking};
use runtime::layout::{
    ACCESSED, Edge, Event, KIND_BRANCH, KIND_WRITE, SAW_NEGATIVE, SAW_NON_ZERO, SAW_ZERO, TIRED,
    ThreadSlot,
};
use sketch_model::{PointKind, SiteId, TrackingPlan};

const HOT: &str = include_str!("../programs/hot.c");
const LATE: &str = include_str!("../programs/late.c");
const REGISTERS: &str = include_str!("../programs/registers.c");
const UNWINDING: &str = include_str!("../programs/unwinding.c");

fn clones(program: &Built, plan: &TrackingPlan) -> TrackedBuild {
    let tracked = track(&program.build, plan).unwrap();
    assert!(matches!(tracked.way, Way::Clones { .. }), "{}", tracked.way);
    tracked
}

#[test]
fn a_hook_of_which_its_thread_is_tired_is_passed_by() {
    const ROUNDS: u64 = 3_000;
    let program = build(&[("hot.c", HOT)], &["-O2", "-fPIE"], &["-pie"]);
    let tracked = clones(&program, &program.plan(&["main", "called"]));
    let p = program.write("p", &program.build.deployed().unwrap());
    let with_hooks = program.write("tracked", &tracked.deployed);
    let each = |program, recording| {
        let steps = |rounds: u64| {
            let arguments = ["loop", &rounds.to_string()];
            stepper::instructions(program, &arguments, recording)
        };
        (steps(2 * ROUNDS) - steps(ROUNDS)) as f64 / ROUNDS as f64
    };
    let (before, after) = (each(&p, false), each(&with_hooks, true));
    eprintln!("a round: {before:.1} instructions; with five hooks that it is tired of {after:.1}");
    // Two branches, a load, and a load and a store of a counter.
    assert!(after - before < 5.0 * 12.0, "{before} {after}");
}

/// A thread's events, and its account.
fn slots(ran: &Ran) -> Vec<&ThreadSlot> {
    let region = ran.region.as_deref().expect("recorded");
    region
        .threads
        .iter()
        .filter(|slot| slot.count > 0)
        .collect()
}

fn events(slot: &ThreadSlot) -> impl Iterator<Item = &Event> {
    let kept = slot.head.iter().chain(&slot.ring);
    kept.take(slot.count as usize)
}

fn edge(slot: &ThreadSlot, site: SiteId, way: u32) -> Option<&Edge> {
    let mut edges = slot.edges.iter();
    edges.find(|edge| edge.site == site.0 + 1 && edge.successor == way)
}

fn site(plan: &TrackingPlan, kind: PointKind) -> SiteId {
    // The first in the source: of the cell.
    let sites = plan.sites.iter().filter(|site| site.kind == kind);
    let line = |site: &&sketch_model::Site| {
        let mut all = plan.all_statements();
        let of = all.find(|statement| statement.id == site.statement);
        of.map(|statement| statement.location.line)
    };
    sites.min_by_key(line).expect("a site").id
}

/// The program `late.c`, its plan, and what it left.
fn late(arguments: &[&str], relink: bool) -> (TrackingPlan, Ran) {
    let program = build(&[("late.c", LATE)], &["-O2", "-fPIE"], &["-pie"]);
    let plan = program.plan(&["touch"]);
    let tracked = match relink {
        true => track_by_relinking(&program.build, &plan, Refusal::SharedObject).unwrap(),
        false => clones(&program, &plan),
    };
    let ran = run(
        &program.write("tracked", &tracked.deployed),
        arguments,
        true,
    );
    assert_eq!(ran.status.code(), Some(0), "{}", ran.stderr);
    (plan, ran)
}

#[test]
fn a_race_whose_second_access_comes_after_a_million_first_ones_is_told() {
    for relink in [false, true] {
        let (plan, ran) = late(&["1000000"], relink);
        let store = site(&plan, PointKind::Store);
        let slots = slots(&ran);
        assert_eq!(slots.len(), 2);
        let hot = edge(slots[0], store, ACCESSED).expect("an account");
        assert!(
            hot.shapes & TIRED != 0 && hot.count < 2_000,
            "{}",
            hot.count
        );
        let write = |event: &&Event| event.site == store.0 && event.kind & 0xff == KIND_WRITE;
        let second = events(slots[1]).find(write).expect("the other thread's");
        assert_eq!(second.value, 1000);
        assert!(second.before > 0 && second.before < second.after);
    }
}

#[test]
fn each_new_thread_is_told_however_many_there_were() {
    let (plan, ran) = late(&["100000", "40"], false);
    let store = site(&plan, PointKind::Store);
    let mut seen: Vec<u64> = slots(&ran)[1..]
        .iter()
        .flat_map(|slot| events(slot))
        .filter(|event| event.site == store.0 && event.kind & 0xff == KIND_WRITE)
        .map(|event| event.value)
        .collect();
    seen.sort_unstable();
    assert_eq!(seen, (1000..1040).collect::<Vec<u64>>());
}

#[test]
fn threads_for_which_the_words_have_no_room_tire_by_their_slots() {
    let (plan, ran) = late(&["100000", "0", "6"], false);
    let store = site(&plan, PointKind::Store);
    let slots = slots(&ran);
    assert_eq!(slots.len(), 7);
    for slot in slots {
        let edge = edge(slot, store, ACCESSED).expect("an account");
        assert!(
            edge.shapes & TIRED != 0 && edge.count < 2_000,
            "{}",
            edge.count
        );
        assert!(events(slot).count() > 500);
    }
}

#[test]
fn what_is_new_is_told_by_a_tired_thread_too() {
    let (plan, ran) = late(&["1000000"], false);
    let store = site(&plan, PointKind::Store);
    let branch = site(&plan, PointKind::Branch);
    let slots = slots(&ran);
    let main = slots[0];
    let last: Vec<(i64, bool)> = events(main)
        .filter(|event| event.site == store.0 && event.value != 3)
        .map(|event| (event.value as i64, event.before < event.after))
        .collect();
    // 77 is one more value above zero.
    assert_eq!(last, [(0, true), (-1, true)]);
    let saw = main.edges.iter().filter(|edge| edge.site == store.0 + 1);
    let saw = saw.fold(0, |all, edge| all | edge.shapes) & !TIRED;
    assert_eq!(saw, SAW_ZERO | SAW_NON_ZERO | SAW_NEGATIVE);
    let ways: Vec<u64> = events(main)
        .filter(|event| event.site == branch.0 && event.kind & 0xff == KIND_BRANCH)
        .map(|event| event.value)
        .collect();
    let rare = ways.last().copied().expect("a way");
    assert_eq!(
        ways.iter().filter(|way| **way == rare).count(),
        1,
        "{ways:?}"
    );
}

#[test]
fn hooks_keep_every_register() {
    let forms: [&[&str]; 4] = [
        &["-O1", "-fPIE"],
        &["-O2", "-fPIE"],
        &["-O3", "-fPIE", "-mavx2"],
        &["-O2", "-fPIE", "-fno-omit-frame-pointer"],
    ];
    for flags in forms {
        let program = build(&[("registers.c", REGISTERS)], flags, &["-pie"]);
        let tracked = clones(&program, &program.plan(&["mixed"]));
        let p = program.write("p", &program.build.deployed().unwrap());
        let with_hooks = program.write("tracked", &tracked.deployed);
        let expected = run(&p, &[], false);
        for recording in [false, true] {
            let got = run(&with_hooks, &[], recording);
            assert_eq!(got.stdout, expected.stdout, "{flags:?} {recording}");
            assert_eq!(got.status.code(), Some(0));
        }
    }
}

#[test]
fn a_signal_at_any_instruction_of_a_hook_unwinds_to_the_program() {
    for flags in [["-O2", "-fPIE"], ["-O0", "-fPIE"]] {
        let program = build(&[("unwinding.c", UNWINDING)], &flags, &["-pie"]);
        let tracked = clones(&program, &program.plan(&["hooked"]));
        let file = program.write("tracked", &tracked.deployed);
        for recording in [false, true] {
            let ran = run(&file, &[], recording);
            assert_eq!(ran.stdout, "0 lead nowhere\n", "{flags:?} {recording}");
            let steps: u64 = ran.stderr.parse().expect("a number");
            assert!(steps > 8 * if recording { 100 } else { 5 }, "{steps}");
        }
    }
}
