//! The plans of an iteration on real programs: branches, synchronisation, pruning, promotion.

use crate::common::*;
use proptest::prelude::*;
use sketch_model::{
    Capabilities, LocationName, PointKind, Promotion, Purpose, Site, SiteId, Slice, SliceEntry,
    SourceLocation, Statement, StatementId, SyncOp, TrackPoint, TrackingPlan, WATCH_SLOTS, Witness,
};
use slicer::{PlanRequest, Program, backward_slice, plan_iteration};
use std::collections::BTreeSet;

const NAMES: [&str; 7] = [
    "pbzip2_queue.c",
    "track_order.c",
    "track_implied.c",
    "track_conditional.c",
    "thread_pool.c",
    "exception_value.cpp",
    "virtual_call.cpp",
];

fn sliced(name: &str) -> (Program, Slice) {
    let path = programs_folder().join(name);
    let text = std::fs::read_to_string(&path).expect("the program is readable");
    let line = text.lines().position(|line| line.contains("// FAIL"));
    let line = line.expect("a failing line") as u32 + 1;
    let program = load_file(&path);
    let id = program.statement_at(None, name, line).expect("a statement");
    let slice = backward_slice(&program, id, &[], &no_source);
    (program, slice)
}

fn plans(program: &Program, slice: &Slice, sigma: u32) -> Vec<TrackingPlan> {
    plan_iteration(program, slice, &PlanRequest::all(sigma), &no_source).plans
}

fn line_of(plan: &TrackingPlan, id: StatementId) -> u32 {
    let found = plan.all_statements().find(|s| s.id == id);
    found
        .expect("every site's statement is in the plan")
        .location
        .line
}

/// Line and kind of the sites of a purpose.
fn sites_for(plan: &TrackingPlan, purpose: Purpose) -> Vec<(u32, PointKind)> {
    let sites = plan.sites.iter().filter(|s| s.purpose == purpose);
    sites
        .map(|s| (line_of(plan, s.statement), s.kind))
        .collect()
}

/// The line that holds the text, from 1.
fn line(name: &str, needle: &str) -> u32 {
    let text = std::fs::read_to_string(programs_folder().join(name)).expect("the program");
    let found = text.lines().position(|line| line.contains(needle));
    found.expect("the line is in the program") as u32 + 1
}

#[test]
fn the_same_slice_and_sigma_give_the_same_plans() {
    let (program, slice) = sliced("pbzip2_queue.c");
    let (again, same_slice) = sliced("pbzip2_queue.c");
    for sigma in 0..=slice.entries.len() as u32 {
        let (one, two) = (
            plans(&program, &slice, sigma),
            plans(&again, &same_slice, sigma),
        );
        assert_eq!(one, two);
        for (a, b) in one.iter().zip(&two) {
            assert_eq!(a.version(), b.version());
            assert!(a.diff(b).is_empty());
        }
    }
}

#[test]
fn a_branch_before_the_tracked_statement_is_recorded_until_it_is_tracked_itself() {
    let name = "pbzip2_queue.c";
    let (program, slice) = sliced(name);
    let decider = line(name, "if (all_done)");
    let first = &plans(&program, &slice, 1)[0];
    assert_eq!(
        sites_for(first, Purpose::ControlFlow),
        [(decider, PointKind::Branch)]
    );
    assert_eq!(first.statements.len(), 1, "it does not count for σ");
    assert!(!first.tracks(first.beside[0].id));
    let whole = &plans(&program, &slice, u32::MAX)[0];
    assert_eq!(sites_for(whole, Purpose::ControlFlow), []);
    assert!(sites_for(whole, Purpose::Statement).contains(&(decider, PointKind::Branch)));
}

#[test]
fn a_branch_that_leads_to_the_statement_either_way_is_not_recorded() {
    let (program, slice) = sliced("control_after.c");
    for plan in plans(&program, &slice, u32::MAX) {
        let branches = plan.sites.iter().filter(|s| s.kind == PointKind::Branch);
        assert_eq!(branches.count(), 0);
    }
}

#[test]
fn locks_around_a_tracked_statement_are_recorded_for_order_alone() {
    let name = "track_order.c";
    let (program, slice) = sliced(name);
    let plan = &plans(&program, &slice, 1)[0];
    let create = (
        line(name, "pthread_create"),
        PointKind::Sync(SyncOp::ThreadCreate),
    );
    let lock = line(name, "rest = 10") - 1;
    assert_eq!(
        sites_for(plan, Purpose::Order),
        [
            create,
            (lock, PointKind::Sync(SyncOp::MutexLock)),
            (lock + 2, PointKind::Sync(SyncOp::MutexUnlock)),
            (lock + 3, PointKind::Sync(SyncOp::ThreadJoin)),
        ]
    );
    assert_eq!(plan.statements.len(), 1);
}

#[test]
fn a_removed_hook_is_implied_by_the_next_one() {
    let name = "track_implied.c";
    let (program, slice) = sliced(name);
    let plan = &plans(&program, &slice, u32::MAX)[0];
    let call = line(name, "malloc(sizeof");
    let implied = plan.implied.iter();
    let mut of_call = implied.filter(|i| line_of(plan, i.statement) == call);
    let by = &of_call.next().expect("the call is implied").by;
    let [Witness::JustBefore(site)] = by[..] else {
        panic!("{by:?}");
    };
    let site = plan.site(site).expect("the site is in the plan");
    assert_eq!(line_of(plan, site.statement), call + 1);
    assert_eq!(site.kind, PointKind::Store);
}

#[test]
fn a_statement_without_points_is_implied_by_what_it_dominates() {
    let name = "pbzip2_queue.c";
    let (program, slice) = sliced(name);
    let plan = &plans(&program, &slice, u32::MAX)[0];
    let start = line(name, "queue *fifo = arg");
    let mut implied = plan.implied.iter();
    let of_start = implied.find(|i| line_of(plan, i.statement) == start);
    let by = &of_start.expect("the start is implied").by;
    assert!(by.iter().any(|w| matches!(w, Witness::Before(_))), "{by:?}");
    for witness in by {
        let site = plan.site(witness.site()).expect("a site of the plan");
        let function = |id| &plan.all_statements().find(|s| s.id == id).unwrap().function;
        assert_eq!(function(site.statement), "consumer");
    }
}

#[test]
fn every_tracked_statement_is_hooked_or_implied_where_anything_of_its_function_is() {
    for name in NAMES {
        let (program, slice) = sliced(name);
        let plan = &plans(&program, &slice, u32::MAX)[0];
        let hooked: BTreeSet<StatementId> = plan.sites.iter().map(|s| s.statement).collect();
        for implied in &plan.implied {
            assert!(!hooked.contains(&implied.statement), "{name}: {implied:?}");
            assert!(plan.tracks(implied.statement) && !implied.by.is_empty());
        }
        let numbers = plan.sites.iter().map(|s| s.id);
        assert!(
            numbers.eq((0..plan.sites.len() as u32).map(SiteId)),
            "{name}"
        );
        let failing = plan.statements[0].id;
        let of_failing = slice.entries[0].points.len();
        let kept = plan.sites.iter().filter(|s| s.statement == failing);
        assert_eq!(
            kept.count(),
            of_failing,
            "{name}: the failing statement keeps all"
        );
    }
}

#[test]
fn six_locations_are_split_over_two_plans_and_one_watches_nothing() {
    let program = load_text(
        "int a, b, c, d, e, f;\nint main(void) {\n  return 1 / (a + b + c + d + e + f);\n}\n",
    );
    let id = program.statement_at(Some("main"), "program.c", 3);
    let slice = backward_slice(&program, id.expect("a statement"), &[], &no_source);
    let plans = plans(&program, &slice, 1);
    let names = |list: &[LocationName]| list.iter().map(ToString::to_string).collect::<Vec<_>>();
    let watched: Vec<_> = plans.iter().map(|p| names(&p.watched).join("")).collect();
    assert_eq!(watched, ["abcd", "ef", ""]);
    let unwatched: Vec<_> = plans.iter().map(|p| names(&p.unwatched).join("")).collect();
    assert_eq!(unwatched, ["ef", "abcd", "abcdef"]);
    let wants: Vec<Capabilities> = plans.iter().map(|p| p.wants.clone()).collect();
    assert_eq!(
        wants,
        [
            Capabilities::watchpoints(),
            Capabilities::watchpoints(),
            Capabilities::hooks()
        ]
    );
    let difference = plans[0].diff(&plans[1]);
    assert!(difference.added.is_empty() && difference.removed.is_empty());
    assert_eq!(difference.moved.len(), 6);
}

#[test]
fn promoted_locations_leave_their_slots_to_others_and_are_audited() {
    let program = load_text(
        "int a, b, c, d, e, f;\nint main(void) {\n  return 1 / (a + b + c + d + e + f);\n}\n",
    );
    let id = program.statement_at(Some("main"), "program.c", 3);
    let slice = backward_slice(&program, id.expect("a statement"), &[], &no_source);
    let plans = plans(&program, &slice, 1);
    let named = |name: &str| LocationName::Global(name.to_owned());
    let names = |list: &[LocationName]| list.iter().map(ToString::to_string).collect::<String>();
    // Nothing is needed: hooks can take over at once.
    let promote = |locations: &[LocationName]| {
        let promotion = |location: &LocationName| Promotion {
            location: location.clone(),
            needs: BTreeSet::new(),
        };
        let ask = PlanRequest {
            promotions: locations.iter().map(promotion).collect(),
            ..PlanRequest::all(1)
        };
        plan_iteration(&program, &slice, &ask, &no_source).plans
    };
    assert_eq!(promote(&[]), plans);
    assert_eq!(promote(&[named("z")]), plans);

    let promoted = promote(&[named("e"), named("a")]);
    let watched: Vec<_> = promoted.iter().map(|p| names(&p.watched)).collect();
    assert_eq!(watched, ["bcdf", "", "ae"]);
    let audits: Vec<bool> = promoted.iter().map(|p| p.audit).collect();
    assert_eq!(audits, [false, false, true]);
    for (number, plan) in promoted.iter().enumerate() {
        assert_eq!(plan.variant as usize, number);
        assert_eq!(names(&plan.promoted), "ae");
        assert!(!names(&plan.unwatched).contains(['a', 'e']));
        // Hooks are the same; only what they aim differs.
        for (site, before) in plan.sites.iter().zip(&plans[0].sites) {
            let unarmed = |site: &Site| Site {
                arm_slot: None,
                ..site.clone()
            };
            assert_eq!(unarmed(site), unarmed(before));
            let slot = site.arm_slot.map(|slot| &plan.watched[usize::from(slot)]);
            assert!(slot.is_none() || slot == site.location.as_ref());
        }
    }
    let all: Vec<LocationName> = "abcdef".chars().map(|c| named(&c.to_string())).collect();
    let watched: Vec<_> = promote(&all).iter().map(|p| names(&p.watched)).collect();
    assert_eq!(watched, ["", "abcd"]);
}

/// Points of made-up statements: some on shared memory, some on none.
fn point() -> impl Strategy<Value = TrackPoint> {
    let name = prop_oneof![
        2 => Just(None),
        1 => Just(Some(LocationName::Unnamed)),
        9 => (0..12u8).prop_map(|n| Some(LocationName::Global(format!("g{n}")))),
    ];
    let size = prop_oneof![Just(4u32), Just(8), Just(3), Just(64)];
    (name, size, 1..40u32, any::<bool>()).prop_map(|(location, size, column, store)| {
        let kind = match (&location, store) {
            (None, _) => PointKind::Branch,
            (_, true) => PointKind::Store,
            (_, false) => PointKind::Load,
        };
        TrackPoint {
            kind,
            column,
            location,
            size,
        }
    })
}

fn slice_of(points: Vec<Vec<TrackPoint>>) -> Slice {
    let entry = |(id, points): (u32, Vec<TrackPoint>)| SliceEntry {
        // Numbers that no program has: nothing is known of them but the slice.
        statement: Statement {
            id: StatementId(1_000_000 + id),
            function: "f".to_owned(),
            location: SourceLocation {
                file: "/src/a.c".to_owned(),
                line: id,
            },
            text: String::new(),
        },
        distance: id,
        why: None,
        roles: Vec::new(),
        points,
    };
    Slice {
        schema: Slice::SCHEMA,
        build: build_id(),
        entries: (1..).zip(points).map(entry).collect(),
        gaps: Vec::new(),
    }
}

fn can_be_watched(site: &Site) -> bool {
    matches!(site.size, 1 | 2 | 4 | 8) && matches!(site.location, Some(LocationName::Global(_)))
}

#[test]
fn random_slices_give_consistent_plans() {
    let program = load_text("int main(void) { return 0; }\n");
    let made = proptest::collection::vec(proptest::collection::vec(point(), 0..4), 0..12);
    proptest!(|(points in made, sigma in 0..15u32)| {
        let slice = slice_of(points);
        let plans = plans(&program, &slice, sigma);
        prop_assert_eq!(&plans, &self::plans(&program, &slice, sigma));
        let last = plans.last().expect("always the plan that watches nothing");
        prop_assert!(last.watched.is_empty() && last.wants == Capabilities::hooks());
        let wanted: BTreeSet<&LocationName> = last.unwatched.iter().collect();
        let by_sites: BTreeSet<&LocationName> = last
            .sites
            .iter()
            .filter(|s| can_be_watched(s))
            .filter_map(|s| s.location.as_ref())
            .collect();
        prop_assert_eq!(&wanted, &by_sites);
        let mut times = Vec::new();
        for (number, plan) in plans.iter().enumerate() {
            prop_assert_eq!(plan.variant as usize, number);
            prop_assert!(plan.watched.len() <= WATCH_SLOTS);
            times.extend(plan.watched.iter());
            let watched: BTreeSet<_> = plan.watched.iter().chain(&plan.unwatched).collect();
            prop_assert_eq!(&watched, &wanted);
            for (site, other) in plan.sites.iter().zip(&last.sites) {
                prop_assert_eq!(&Site { arm_slot: None, ..site.clone() }, other);
                let slot = site.arm_slot.map(|slot| &plan.watched[usize::from(slot)]);
                prop_assert!(slot.is_none() || slot == site.location.as_ref());
                let is_watched = site.location.as_ref().is_some_and(|l| plan.watched.contains(l));
                prop_assert_eq!(slot.is_some(), is_watched && can_be_watched(site));
            }
        }
        let count = times.len();
        let distinct: BTreeSet<_> = times.into_iter().collect();
        prop_assert_eq!(count, distinct.len(), "a location is watched twice");
        prop_assert_eq!(distinct, wanted);
    });
}

#[test]
fn an_access_in_a_small_function_is_split_by_caller() {
    let program = load_text(
        "struct node { struct node *next; int value; };\n\
         static struct node *head;\n\
         static struct node *next(struct node *n) { return n->next; }\n\
         static int only(struct node *n) { return n->value; }\n\
         int main(int argc, char **argv) {\n\
           int count = 0;\n\
           for (struct node *n = head; n; n = next(n)) count++;\n\
           struct node *second = next(head);\n\
           return second->value + only(second) + count;\n}\n",
    );
    let id = program
        .statement_at(None, "program.c", 9)
        .expect("a statement");
    let slice = backward_slice(&program, id, &[], &no_source);
    let all = slice.entries.len() as u32;
    let plan = &plans(&program, &slice, all)[0];
    let callers_of = |line: u32| -> Vec<Option<u32>> {
        let sites = plan
            .sites
            .iter()
            .filter(|site| site.kind == PointKind::Load && line_of(plan, site.statement) == line);
        sites
            .map(|site| site.caller.map(|id| line_of(plan, id)))
            .collect()
    };
    // Nearest the failure first.
    assert_eq!(callers_of(3), [None, Some(7), Some(8)]);
    // There is nothing to tell apart.
    assert_eq!(callers_of(4), [None]);
    for (number, site) in plan.sites.iter().enumerate() {
        assert_eq!(site.id, SiteId(number as u32));
    }
    assert!(plan.to_string().contains("called at main"), "{plan}");
}

#[test]
fn a_stack_slot_is_never_watched() {
    let program = load_text(
        "static int g;\nint main(int argc, char **argv) {\n  int x = argc, *p = &x;\n  *p = g;\n  \
         return 10 / (x + *p);\n}\n",
    );
    let id = program
        .statement_at(None, "program.c", 5)
        .expect("a statement");
    let slice = backward_slice(&program, id, &[], &no_source);
    for plan in plans(&program, &slice, u32::MAX) {
        let all: Vec<_> = plan.watched.iter().chain(&plan.unwatched).collect();
        assert_eq!(all, [&LocationName::Global("g".to_owned())]);
    }
}
