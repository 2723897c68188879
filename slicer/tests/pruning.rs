//! What pruning may and may not take away, on every annotated program.

mod common;

use common::*;
use sketch_model::{PointKind, SiteId, StatementId, TrackingPlan};
use slicer::{Program, backward_slice, plan, prune};

/// The program and the plan for the whole slice of its failing line.
fn whole_plan(name: &str) -> (Program, TrackingPlan) {
    let path = programs_folder().join(name);
    let text = std::fs::read_to_string(&path).expect("the program is readable");
    let line = text.lines().position(|line| line.contains("// FAIL"));
    let line = line.expect("a failing line") as u32 + 1;
    let program = load_file(&path);
    let id = program.statement_at(None, name, line).expect("a statement");
    let slice = backward_slice(&program, id, &[], &no_source);
    let whole = plan(&slice, slice.entries.len() as u32, &[]);
    (program, whole)
}

const PROGRAMS: [&str; 6] = [
    "track_implied.c",
    "track_conditional.c",
    "pbzip2_queue.c",
    "thread_pool.c",
    "exception_value.cpp",
    "virtual_call.cpp",
];

#[test]
fn only_calls_go_and_what_they_told_is_still_told() {
    let mut gone = 0;
    for name in PROGRAMS {
        let (program, whole) = whole_plan(name);
        let pruned = prune(&program, &whole);
        let kept = &pruned.plan.sites;
        gone += whole.sites.len() - kept.len();
        let others = |plan: &TrackingPlan| {
            let sites = plan.sites.iter().filter(|s| s.kind != PointKind::Call);
            sites
                .map(|s| (s.statement, s.kind, s.column))
                .collect::<Vec<_>>()
        };
        assert_eq!(others(&whole), others(&pruned.plan), "{name}");
        for site in &whole.sites {
            let is_left = kept.iter().any(|s| s.statement == site.statement);
            let mut implied = pruned.implied.iter();
            let by = implied.find(|(statement, _)| *statement == site.statement);
            assert_eq!(is_left, by.is_none(), "{name}: {site:?}");
            if let Some((statement, by)) = by {
                let by = pruned.plan.site(*by).expect("the implying site is kept");
                assert_eq!(
                    function_of(&program, by.statement),
                    function_of(&program, *statement)
                );
            }
        }
        assert_eq!(pruned.plan.statements, whole.statements);
        assert_eq!(pruned.plan.watched, whole.watched);
    }
    assert!(gone > 0, "nothing was pruned anywhere");
}

fn function_of(program: &Program, id: StatementId) -> &str {
    &program.statements()[id.0 as usize].function
}

#[test]
fn sites_are_numbered_by_position_and_pruning_again_changes_nothing() {
    for name in PROGRAMS {
        let (program, whole) = whole_plan(name);
        let once = prune(&program, &whole).plan;
        let numbers = once.sites.iter().map(|s| s.id);
        assert!(
            numbers.eq((0..once.sites.len() as u32).map(SiteId)),
            "{name}"
        );
        assert_eq!(prune(&program, &once).plan, once, "{name}");
    }
}

#[test]
fn the_failing_statement_implies_nothing() {
    let text = "static int a, b;\nstatic void f(void) { b = 1; }\n\
                int main(void) {\nf();\nreturn 10 / (a = b);\n}\n";
    let program = load_text(text);
    let id = program
        .statement_at(None, "program.c", 5)
        .expect("the failing line");
    let slice = backward_slice(&program, id, &[], &no_source);
    let whole = plan(&slice, 9, &[]);
    let call = program
        .statement_at(None, "program.c", 4)
        .expect("the call");
    let pruned = prune(&program, &whole);
    assert!(pruned.plan.sites.iter().any(|s| s.statement == call));
    assert_eq!(pruned.implied, []);
}
