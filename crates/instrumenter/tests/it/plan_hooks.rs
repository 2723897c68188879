//! The hooks of a whole plan in optimised code: branches and locks beside the
//! tracked statement, and watchpoints aimed as early as they can be.

use crate::common::modules;
use crate::common::modules::bitcode;
use inkwell::context::Context;
use inkwell::memory_buffer::MemoryBuffer;
use inkwell::module::Module;
use inkwell::values::AnyValue;
use sketch_model::{BuildId, Placement, Purpose, TrackingPlan};
use slicer::{ModuleInput, PlanRequest, Program, backward_slice, plan_iteration};

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
    let folder = tempfile::tempdir().unwrap();
    let unoptimised = bitcode(folder.path(), SOURCE, &["-Xclang", "-disable-llvm-passes"]);
    let input = ModuleInput {
        name: "p.c",
        bitcode: &unoptimised,
    };
    let program = Program::load(BuildId("test".into()), &[input]).unwrap();
    let failing = program.statement_at(None, "p.c", line).unwrap();
    let slice = backward_slice(&program, failing, &[], &|_| None);
    let iteration = plan_iteration(&program, &slice, &PlanRequest::all(1), &|_| None);
    let plan = iteration.plans[0].clone();
    let branches = modules::branches(folder.path(), SOURCE, &plan);
    let context = Context::create();
    let optimised = bitcode(folder.path(), SOURCE, &[]);
    let buffer = MemoryBuffer::create_from_memory_range_copy(&optimised, "p");
    let module = Module::parse_bitcode_from_buffer(&buffer, &context).unwrap();
    let mut placement = Placement::default();
    assert!(instrumenter::place(&context, &module, &branches, &plan, &mut placement).unwrap());
    module.verify().unwrap();
    let text = module.get_function(function).unwrap().print_to_string();
    (text.to_string(), plan, placement)
}

/// Where the calls of these functions stand, in this order.
fn assert_in_order(text: &str, calls: &[&str]) {
    let mut from = 0;
    for call in calls {
        let found = text[from..].find(&format!("@{call}("));
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
            "__failsketch_branch",
            // The address of a global is known when the block begins.
            "__failsketch_arm",
            "__failsketch_sync_begin",
            "pthread_mutex_lock",
            "__failsketch_sync_end",
            "__failsketch_access",
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
            "__failsketch_arm",
            "pthread_mutex_lock",
            "__failsketch_access",
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
