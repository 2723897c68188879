//! The hooks of a whole plan in optimised code: branches and locks beside the
//! tracked statement, and watchpoints aimed as early as they can be.

use crate::common::modules;
use crate::common::modules::bitcode;
use inkwell::context::Context;
use inkwell::memory_buffer::MemoryBuffer;
use inkwell::module::Module;
use inkwell::values::AnyValue;
use sketch_model::{BuildId, LocationName, Placement, Purpose, TrackingPlan};
use slicer::{ModuleInput, PlanRequest, Program, backward_slice, plan_iteration};
use sync_functions::SYNC_FUNCTIONS;

const SOURCE: &str = r#"#include <pthread.h>
struct box { int size; int label; };
pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
int level = 1; int rest;
struct box *get(int n);
void locked(int n)
{
    if (n > 3) {
        pthread_mutex_lock(&lock);
        rest = 10 / level;
        pthread_mutex_unlock(&lock);
    }
}
int made(int n)
{
    struct box *box = get(n);
    pthread_mutex_lock(&lock);
    return 10 / box->size;
}
void note(void *m);
#define LOCK(m) (note(m), pthread_mutex_lock(m))
void noted(void)
{
    LOCK(&lock);
    rest = 10 / level;
}
"#;

/// The hooked function, its plan for σ = 1, and where the hooks stand.
fn hooked(line: u32, function: &str) -> (String, TrackingPlan, Placement) {
    hooked_in(SOURCE, line, function)
}

fn hooked_in(source: &str, line: u32, function: &str) -> (String, TrackingPlan, Placement) {
    let folder = tempfile::tempdir().unwrap();
    let unoptimised = bitcode(folder.path(), source, &["-Xclang", "-disable-llvm-passes"]);
    let input = ModuleInput {
        name: "p.c",
        bitcode: &unoptimised,
    };
    let program = Program::load(BuildId("test".into()), &[input]).unwrap();
    let failing = program.statement_at(None, "p.c", line).unwrap();
    let slice = backward_slice(&program, failing, &[], &|_| None);
    let iteration = plan_iteration(&program, &slice, &PlanRequest::all(1), &|_| None);
    let plan = iteration.plans[0].clone();
    let branches = modules::branches(folder.path(), source, &plan);
    let context = Context::create();
    let optimised = bitcode(folder.path(), source, &[]);
    let buffer = MemoryBuffer::create_from_memory_range_copy(&optimised, "p");
    let module = Module::parse_bitcode_from_buffer(&buffer, &context).unwrap();
    let mut placement = Placement::default();
    assert!(instrumenter::place(&context, &module, &branches, &plan, &mut placement).unwrap());
    module.verify().unwrap();
    let text = module.get_function(function).unwrap().print_to_string();
    (text.to_string(), plan, placement)
}

/// Calls of these functions, by the program or by the assembly of hooks, stand in this order.
fn assert_in_order(text: &str, calls: &[&str]) {
    let mut from = 0;
    for call in calls {
        let by_assembly = format!("call {call}\\0A");
        let by_program = format!("@{call}(");
        let found = [by_assembly, by_program].map(|found| text[from..].find(&found));
        let found = found.into_iter().flatten().min();
        from += found.unwrap_or_else(|| panic!("no {call} after byte {from} of\n{text}"));
    }
}

#[test]
fn branch_and_locks_beside_the_tracked_statement_are_hooked() {
    let (text, plan, placement) = hooked(10, "locked");
    let purposes: Vec<Purpose> = plan.sites.iter().map(|s| s.purpose).collect();
    let mut kinds = purposes.clone();
    kinds.dedup();
    assert_eq!(
        kinds,
        [Purpose::Statement, Purpose::ControlFlow, Purpose::Order]
    );
    for site in &plan.sites {
        assert!(placement.is_placed(site.id), "{site:?} of\n{text}");
    }
    assert_in_order(
        &text,
        &[
            "__failsketch_kept_branch",
            // The address of a global is known when the block begins.
            "__failsketch_kept_arm",
            "__failsketch_sync_begin",
            "pthread_mutex_lock",
            "__failsketch_sync_end",
            "__failsketch_kept_clock",
            "__failsketch_kept_wrote",
            "__failsketch_sync_begin",
            "pthread_mutex_unlock",
        ],
    );
}

#[test]
fn a_watchpoint_is_aimed_as_soon_as_the_address_is_computed() {
    let (text, plan, _) = hooked(18, "made");
    assert_eq!(plan.watched.len(), 1, "{plan}");
    assert_in_order(
        &text,
        &[
            "get",
            "__failsketch_kept_arm",
            "pthread_mutex_lock",
            "__failsketch_kept_clock",
            "__failsketch_kept_read",
        ],
    );
}

#[test]
fn of_the_calls_at_one_place_only_the_one_that_synchronises_is_bracketed() {
    let (text, _, _) = hooked(25, "noted");
    assert_eq!(
        text.matches("@__failsketch_sync_begin(").count(),
        1,
        "{text}"
    );
    assert_in_order(
        &text,
        &[
            "note",
            "__failsketch_sync_begin",
            "pthread_mutex_lock",
            "__failsketch_sync_end",
        ],
    );
}

/// A row of the table is all that a synchronisation function takes.
#[test]
fn every_function_of_the_table_is_hooked_on_its_object() {
    let mut source = String::from("char object, other; int level = 1; int rest;\n");
    let mut calls = String::new();
    for known in SYNC_FUNCTIONS {
        let name = known.name;
        source.push_str(&format!("int {name}(void *, void *, void *, void *);\n"));
        let argument = |number| match number == known.object {
            true => "&object",
            false => "&other",
        };
        let arguments: Vec<&str> = (0..4).map(argument).collect();
        calls.push_str(&format!("    {name}({});\n", arguments.join(", ")));
    }
    source.push_str(&format!(
        "void all(void)\n{{\n{calls}    rest = 10 / level;\n}}\n"
    ));
    let line = source.lines().count() as u32 - 1;
    let (text, plan, _) = hooked_in(&source, line, "all");
    let object = Some(LocationName::Global("object".to_owned()));
    for (known, site) in SYNC_FUNCTIONS.iter().zip(order_sites(&plan)) {
        assert_eq!(site.location, object, "{}", known.name);
        let hooked = [
            "__failsketch_sync_begin",
            known.name,
            "__failsketch_sync_end",
        ];
        let own = format!("__failsketch_sync_begin(i32 {}, ", site.id.0);
        let from = text
            .find(&own)
            .unwrap_or_else(|| panic!("no {own} in\n{text}"));
        assert_in_order(&text[from - 1..], &hooked);
        let on_object = format!("{own}i64 ptrtoint (ptr @object to i64))");
        assert!(text.contains(&on_object), "no {on_object} in\n{text}");
    }
    assert_eq!(order_sites(&plan).count(), SYNC_FUNCTIONS.len());
}

fn order_sites(plan: &TrackingPlan) -> impl Iterator<Item = &sketch_model::Site> {
    let sites = plan.sites.iter();
    sites.filter(|site| site.purpose == Purpose::Order)
}
