//! Two statements that the optimiser made one are told apart by the way that
//! control came.

mod common;

use common::{build, run};
use runtime::layout::{KIND_READ, KIND_WRITE};
use sketch_model::SiteId;

const SOURCE: &str = include_str!("programs/merged.c");

fn line_of(text: &str) -> u32 {
    let lines: Vec<&str> = SOURCE.lines().collect();
    let found = lines.iter().position(|line| line.contains(text));
    found.expect("the line") as u32 + 1
}

#[test]
fn each_way_into_a_merged_access_is_recorded_as_its_own_statement() {
    let program = build(&[("merged.c", SOURCE)], &["-O2"], &[]);
    let plan = program.plan(&["put"]);
    let tracked = instrumenter::track(&program.build, &plan).unwrap();
    let path = program.write("tracked", &tracked.deployed);
    let ran = run(&path, &[], true);
    assert_eq!(ran.status.code(), Some(30), "{}", ran.stderr);

    let (file, log) = (
        line_of("f->size += length;"),
        line_of("l->count += length;"),
    );
    let line = |site: u32| {
        let site = plan.site(SiteId(site)).expect("a site of the plan");
        let statement = plan.all_statements().find(|s| s.id == site.statement);
        statement.expect("a statement of the plan").location.line
    };
    let events = ran.events.iter().flatten();
    let sums: Vec<(u32, u16, u64)> = events
        .filter(|event| [KIND_READ, KIND_WRITE].contains(&event.kind))
        .map(|event| (line(event.site), event.kind, event.value))
        .filter(|(line, _, _)| [file, log].contains(line))
        .collect();
    let wanted = [
        (log, KIND_READ, 0),
        (log, KIND_WRITE, 3),
        (file, KIND_READ, 0),
        (file, KIND_WRITE, 12),
        (log, KIND_READ, 3),
        (log, KIND_WRITE, 7),
        (file, KIND_READ, 12),
        (file, KIND_WRITE, 23),
    ];
    assert_eq!(sums, wanted);
}
