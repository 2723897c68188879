//! Two statements that the optimiser made one are told apart by the way that
//! control came.

use crate::common::{build, run};
use runtime::layout::{KIND_READ, KIND_WRITE};
use sketch_model::{Site, SiteId};
use std::collections::HashMap;

const SOURCE: &str = include_str!("../programs/merged.c");

fn line_of(source: &str, text: &str) -> u32 {
    let found = source.lines().position(|line| line.contains(text));
    found.expect("the line") as u32 + 1
}

/// What a run of the program records of the two sums, in order: the line, the kind of
/// access, and the value.
fn sums(source: &str, leave_out: Option<u32>) -> Vec<(u32, u16, u64)> {
    let program = build(&[("merged.c", source)], &["-O2"], &[]);
    let mut plan = program.plan(&["put"]);
    let statements: HashMap<_, _> = plan.all_statements().map(|s| (s.id, s.clone())).collect();
    let line = |site: &Site| statements[&site.statement].location.line;
    plan.sites.retain(|site| Some(line(site)) != leave_out);
    for (number, site) in plan.sites.iter_mut().enumerate() {
        site.id = SiteId(number as u32);
    }
    let tracked = instrumenter::track(&program.build, &plan).unwrap();
    let path = program.write("tracked", &tracked.deployed);
    let ran = run(&path, &[], true);
    assert_eq!(ran.status.code(), Some(30), "{}", ran.stderr);
    let sums = ["f->size += length;", "l->count += length;"].map(|text| line_of(source, text));
    let events = ran.events.iter().flatten();
    events
        .filter(|event| [KIND_READ, KIND_WRITE].contains(&event.kind))
        .map(|event| {
            (
                line(&plan.sites[event.site as usize]),
                event.kind,
                event.value,
            )
        })
        .filter(|(line, _, _)| sums.contains(line))
        .collect()
}

#[test]
fn each_way_into_a_merged_access_is_recorded_as_its_own_statement() {
    let file = line_of(SOURCE, "f->size += length;");
    let log = line_of(SOURCE, "l->count += length;");
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
    assert_eq!(sums(SOURCE, None), wanted);
}

#[test]
fn where_another_statement_stores_to_the_same_place_nothing_is_guessed() {
    let source = SOURCE.replace(
        "            return;",
        "            l->count = 1, length = 0;",
    );
    let other = line_of(&source, "l->count = 1");
    let file = line_of(&source, "f->size += length;");
    for left_out in [None, Some(other)] {
        let recorded = sums(&source, left_out);
        assert_eq!(recorded.len(), 4, "{recorded:?}");
        assert!(recorded.iter().all(|(line, _, _)| *line == file));
    }
}
