//! Hooks land where the plan says, in optimised code, and nowhere else.

use crate::common::modules;
use crate::common::modules::{bitcode, server_plan, whole_plan};
use inkwell::context::Context;
use inkwell::memory_buffer::MemoryBuffer;
use inkwell::module::Module;
use inkwell::values::AnyValue;
use sketch_model::{Placement, PointKind, SyncOp};

const SOURCE: &str = r#"#include <pthread.h>
typedef struct { int n; pthread_mutex_t *mut; } queue;
int log_count; queue shared;
static void queue_delete(queue *q)
{
    q->mut = 0;
}
int unrelated(int x)
{
    return x * 3 + 1;
}
void consume(queue *q)
{
    if (q->n > 3)
        log_count++;
    pthread_mutex_unlock(q->mut);
}
int main(int argc, char **argv)
{
    shared.n = argc;
    consume(&shared);
    queue_delete(&shared);
    return unrelated(argc) + log_count;
}
"#;

/// Line 16: the call that fails.
const FAILING_LINE: u32 = 16;

fn parse<'c>(context: &'c Context, bitcode: &[u8]) -> Module<'c> {
    let buffer = MemoryBuffer::create_from_memory_range_copy(bitcode, "p");
    Module::parse_bitcode_from_buffer(&buffer, context).unwrap()
}

fn printed(module: &Module<'_>, function: &str) -> String {
    module
        .get_function(function)
        .unwrap()
        .print_to_string()
        .to_string()
}

#[test]
fn every_kind_of_site_finds_its_instruction() {
    let folder = tempfile::tempdir().unwrap();
    let plan = whole_plan(folder.path(), SOURCE, FAILING_LINE);
    let branches = modules::branches(folder.path(), SOURCE, &plan);
    let context = Context::create();
    let module = parse(&context, &bitcode(folder.path(), SOURCE, &[]));
    let mut placement = Placement::default();
    assert!(instrumenter::place(&context, &module, &branches, &plan, &mut placement).unwrap());
    module.verify().unwrap();

    let placed = |line: u32, kind: PointKind| {
        let statements: Vec<_> = plan
            .statements
            .iter()
            .filter(|s| s.location.line == line)
            .map(|s| s.id)
            .collect();
        plan.sites
            .iter()
            .filter(|site| statements.contains(&site.statement) && site.kind == kind)
            .map(|site| placement.places[site.id.0 as usize])
            .sum::<u32>()
    };
    assert!(
        placed(FAILING_LINE, PointKind::Load) >= 1,
        "the load of q->mut"
    );
    assert!(
        placed(FAILING_LINE, PointKind::Sync(SyncOp::MutexUnlock)) >= 1,
        "the unlock"
    );
    assert!(
        placed(6, PointKind::Store) >= 1,
        "the inlined store of NULL"
    );
    let text = module.print_to_string().to_string();
    let calls = ["sync_begin", "sync_end"].map(|hook| format!("call void @__failsketch_{hook}("));
    let kept = ["clock", "read", "wrote", "arm"];
    let kept = kept.map(|hook| format!("call __failsketch_kept_{hook}\\0A"));
    for call in calls.into_iter().chain(kept) {
        assert!(text.contains(&call), "no {call} in\n{text}");
    }
}

#[test]
fn a_function_without_sites_stays_as_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let plan = whole_plan(folder.path(), SOURCE, FAILING_LINE);
    let branches = modules::branches(folder.path(), SOURCE, &plan);
    let optimised = bitcode(folder.path(), SOURCE, &[]);
    let context = Context::create();
    let (before, after) = (parse(&context, &optimised), parse(&context, &optimised));
    instrumenter::place(
        &context,
        &after,
        &branches,
        &plan,
        &mut Placement::default(),
    )
    .unwrap();
    assert_eq!(printed(&before, "unrelated"), printed(&after, "unrelated"));
    assert_ne!(printed(&before, "consume"), printed(&after, "consume"));
}

#[test]
fn a_site_that_was_optimised_away_is_counted_as_nowhere() {
    let folder = tempfile::tempdir().unwrap();
    let mut plan = whole_plan(folder.path(), SOURCE, FAILING_LINE);
    let branches = modules::branches(folder.path(), SOURCE, &plan);
    for site in &mut plan.sites {
        site.column = 9_999;
    }
    let context = Context::create();
    let module = parse(&context, &bitcode(folder.path(), SOURCE, &[]));
    let mut placement = Placement::default();
    assert!(!instrumenter::place(&context, &module, &branches, &plan, &mut placement).unwrap());
    assert_eq!(placement.places, vec![0; plan.sites.len()]);
    assert!(
        !module
            .print_to_string()
            .to_string()
            .contains("__failsketch")
    );
}

const ACCESSOR: &str = r#"
struct node { struct node *next; int value; };
struct node *head; int count;
static struct node *next(struct node *n) { return n->next; }
int ends(struct node *n) { return next(n) == 0; }
int circles(struct node *n) { return next(n) == n; }
int main(int argc, char **argv)
{
    for (struct node *n = head; n; n = next(n))
        count++;
    struct node *second = next(head);
    struct node *third = next(second);
    return third->value;
}
"#;

#[test]
fn an_inlined_access_is_hooked_for_the_call_that_makes_it() {
    let folder = tempfile::tempdir().unwrap();
    let plan = server_plan(folder.path(), ACCESSOR, 13);
    let branches = modules::branches(folder.path(), ACCESSOR, &plan);
    let context = Context::create();
    let module = parse(&context, &bitcode(folder.path(), ACCESSOR, &[]));
    let mut placement = Placement::default();
    assert!(instrumenter::place(&context, &module, &branches, &plan, &mut placement).unwrap());
    module.verify().unwrap();
    let line = |id| {
        let found = plan.all_statements().find(|s| s.id == id);
        found.unwrap().location.line
    };
    let mut places: Vec<(Option<u32>, u32)> = plan
        .sites
        .iter()
        .filter(|site| site.kind == PointKind::Load && line(site.statement) == 4)
        .map(|site| {
            let caller = site.caller.map(line);
            (caller, placement.places[site.id.0 as usize])
        })
        .collect();
    places.sort_unstable();
    // The two calls that gave what is read at the end, and the rest together.
    assert_eq!(places, [(None, 3), (Some(11), 1), (Some(12), 1)]);
}
