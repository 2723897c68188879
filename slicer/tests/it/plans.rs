//! From slice to plan on a real program: names, points, roles, slots, σ.

use crate::common::*;
use sketch_model::{
    DependenceKind, Gap, LocationName, PointKind, Slice, SliceEntry, SourceLocation, StatementId,
    SyncOp,
};
use slicer::plan;
use slicer::{Program, backward_slice, entry_for};

const QUEUE: &str = "pbzip2_queue.c";

fn queue() -> Program {
    load_file(&programs_folder().join(QUEUE))
}

fn line_of(needle: &str) -> u32 {
    let text = std::fs::read_to_string(programs_folder().join(QUEUE)).expect("the program");
    let found = text
        .lines()
        .zip(1..)
        .find(|(line, _)| line.contains(needle));
    found.expect("the line is in the program").1
}

fn statement(program: &Program, needle: &str) -> StatementId {
    let found = program.statement_at(None, QUEUE, line_of(needle));
    found.expect("the line has a statement")
}

fn slice_of(program: &Program) -> Slice {
    let failing = statement(program, "// FAIL");
    let text = |location: &SourceLocation| {
        let text = std::fs::read_to_string(&location.file).ok()?;
        Some(text.lines().nth(location.line as usize - 1)?.to_owned())
    };
    backward_slice(program, failing, &[], &text)
}

fn entry<'a>(program: &Program, slice: &'a Slice, needle: &str) -> &'a SliceEntry {
    let found = slice.entry(statement(program, needle));
    found.expect("the statement is in the slice")
}

fn queue_field(field: &str) -> LocationName {
    LocationName::Field {
        record: "queue".to_owned(),
        field: field.to_owned(),
    }
}

#[test]
fn statements_are_sorted_and_found_by_the_end_of_a_path() {
    let program = queue();
    let keys: Vec<_> = program
        .statements()
        .iter()
        .map(|s| (s.location.file.clone(), s.location.line, s.function.clone()))
        .collect();
    assert!(keys.is_sorted());
    for (position, info) in program.statements().iter().enumerate() {
        assert_eq!(info.id, StatementId(position as u32));
        let found = program.statement_at(
            Some(&info.function),
            &info.location.file,
            info.location.line,
        );
        assert_eq!(found, Some(info.id));
    }
    let line = line_of("// FAIL");
    assert!(
        program
            .statement_at(Some("consumer"), "slice/pbzip2_queue.c", line)
            .is_some()
    );
    assert_eq!(program.statement_at(Some("main"), QUEUE, line), None);
    assert_eq!(program.statement_at(None, "bzip2_queue.c", line), None);
    assert_eq!(program.statement_at(None, QUEUE, 1), None);
}

#[test]
fn the_unlock_reads_a_named_field_and_synchronises() {
    let program = queue();
    let slice = slice_of(&program);
    let failing = slice.failing().expect("a criterion");
    assert!(
        failing
            .statement
            .text
            .starts_with("pthread_mutex_unlock(fifo->mut);")
    );
    assert_eq!(failing.statement.function, "consumer");
    assert_eq!(failing.roles, ["consumer"]);
    let kinds: Vec<_> = failing
        .points
        .iter()
        .map(|p| (p.kind, p.location.clone(), p.size))
        .collect();
    assert_eq!(
        kinds,
        [
            (PointKind::Load, Some(queue_field("mut")), 8),
            (PointKind::Sync(SyncOp::MutexUnlock), None, 0),
        ]
    );
}

#[test]
fn the_store_of_null_is_next_by_memory_from_main() {
    let program = queue();
    let slice = slice_of(&program);
    let store = entry(&program, &slice, "q->mut = NULL");
    assert_eq!(store.distance, 13);
    assert_eq!(
        store.why.as_ref().map(|w| w.kind),
        Some(DependenceKind::Memory)
    );
    assert_eq!(store.roles, ["main"]);
    assert_eq!(store.points[0].kind, PointKind::Store);
    assert_eq!(store.points[0].location, Some(queue_field("mut")));
    let creation = entry(&program, &slice, "pthread_create");
    assert_eq!(
        creation.why.as_ref().map(|w| w.kind),
        Some(DependenceKind::ThreadStart)
    );
    let kinds = [PointKind::Sync(SyncOp::ThreadCreate)];
    assert_eq!(
        creation.points.iter().map(|p| p.kind).collect::<Vec<_>>(),
        kinds
    );
}

#[test]
fn frames_of_the_stack_come_at_their_depth() {
    let program = load_text(
        "int divide(int a) {\n  return 10 / a;\n}\nint middle(int a) {\n  a++;\n  return divide(3);\n}\n\
         int main(int argc, char **argv) {\n  return middle(argc);\n}\n",
    );
    let at = |line| {
        program
            .statement_at(None, "program.c", line)
            .expect("a statement")
    };
    let slice = backward_slice(&program, at(2), &[at(6), at(9)], &no_source);
    let place = |line| {
        slice
            .entries
            .iter()
            .position(|e| e.statement.id == at(line))
    };
    assert_eq!((place(2), place(6), place(9)), (Some(0), Some(1), Some(2)));
    let middle = &slice.entries[1];
    // The call that the stack shows is the only one that counts, and not its rank among frames.
    assert_eq!(middle.distance, 10);
    let why = middle.why.as_ref().expect("a reason");
    assert_eq!((why.kind, why.parent), (DependenceKind::Stack, at(2)));
    assert_eq!(slice.entries[2].distance, 25);
}

#[test]
fn prefixes_nest_and_sites_are_numbered_by_position() {
    let program = queue();
    let slice = slice_of(&program);
    let mut previous = plan(&slice, 0, &[]);
    assert!(previous.statements.is_empty() && previous.sites.is_empty());
    for sigma in 1..=slice.entries.len() as u32 + 3 {
        let next = plan(&slice, sigma, &[]);
        assert!(next.statements.starts_with(&previous.statements));
        assert!(next.sites.len() >= previous.sites.len());
        assert!(next.watched.starts_with(&previous.watched));
        assert!(next.watched.len() <= sketch_model::WATCH_SLOTS);
        for (position, site) in next.sites.iter().enumerate() {
            assert_eq!(site.id.0 as usize, position);
            let slot = site.arm_slot.map(|slot| &next.watched[usize::from(slot)]);
            assert!(slot.is_none() || slot == site.location.as_ref());
        }
        assert_eq!(next, plan(&slice, sigma, &[]), "a plan is a value");
        previous = next;
    }
    assert_eq!(previous.statements.len(), slice.entries.len());
}

#[test]
fn the_failing_statements_location_is_watched_first() {
    let program = queue();
    let slice = slice_of(&program);
    let plan = plan(&slice, 4, &[]);
    assert_eq!(plan.watched[0], queue_field("mut"));
    let armed = plan.sites.iter().filter(|s| s.arm_slot == Some(0));
    assert_eq!(armed.count(), 2, "the load and the first store of it");
}

#[test]
fn a_discovered_statement_joins_once() {
    let program = queue();
    let slice = slice_of(&program);
    let found = entry_for(&program, statement(&program, "consumed++"), &no_source);
    assert_eq!((found.distance, &found.why), (u32::MAX, &None));
    assert_eq!(
        found.points[0].location,
        Some(LocationName::Global("consumed".to_owned()))
    );
    let both = [found.clone(), found.clone(), slice.entries[0].clone()];
    let plan = plan(&slice, 2, &both);
    assert_eq!(plan.statements.len(), 3);
    assert_eq!(plan.statements[2], found.statement);
    assert!(
        plan.watched
            .contains(&LocationName::Global("consumed".to_owned()))
    );
}

#[test]
fn more_locations_than_slots_are_named_not_dropped() {
    let program = load_text(
        "int a, b, c, d, e, f;\nint main(void) {\n  return 1 / (a + b + c + d + e + f);\n}\n",
    );
    let id = program
        .statement_at(Some("main"), "program.c", 3)
        .expect("a statement");
    let slice = backward_slice(&program, id, &[], &no_source);
    let plan = plan(&slice, 1, &[]);
    let names = |list: &[LocationName]| list.iter().map(ToString::to_string).collect::<Vec<_>>();
    assert_eq!(names(&plan.watched), ["a", "b", "c", "d"]);
    assert_eq!(names(&plan.unwatched), ["e", "f"]);
}

#[test]
fn stack_slots_have_no_points() {
    let program = load_text(
        "struct pair { int x, y; };\nint main(int argc, char **argv) {\n  struct pair p;\n  \
         p.x = argc;\n  int *q = &p.x;\n  *q = 2;\n  return p.x;\n}\n",
    );
    for line in [4, 6, 7] {
        let id = program
            .statement_at(None, "program.c", line)
            .expect("a statement");
        assert_eq!(
            entry_for(&program, id, &no_source).points,
            [],
            "line {line}"
        );
    }
}

#[test]
fn a_statement_of_another_build_gives_an_empty_slice_that_says_so() {
    let program = queue();
    let slice = backward_slice(&program, StatementId(99_999), &[], &no_source);
    assert!(slice.entries.is_empty());
    assert!(matches!(
        slice.gaps.last(),
        Some(Gap::StatementNotInBuild {
            statement: StatementId(99999),
            ..
        })
    ));
}
