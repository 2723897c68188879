//! Atomic read-modify-writes are hooked as the load and the store that they are.

use crate::common::modules;
use crate::common::modules::{bitcode, whole_plan};
use inkwell::context::Context;
use inkwell::memory_buffer::MemoryBuffer;
use inkwell::module::Module;
use sketch_model::{Placement, PointKind};
use std::fs;
use std::path::Path;
use std::process::Command;

const SOURCE: &str = r#"#include <stdatomic.h>
_Atomic int count; int table[100];
__attribute__((noinline)) void bump(int by)
{
    atomic_fetch_add(&count, by);
}
__attribute__((noinline)) void swap(int from, int to)
{
    atomic_compare_exchange_strong(&count, &from, to);
}
__attribute__((noinline)) int use(void)
{
    return table[count];
}
int main(int argc, char **argv)
{
    bump(argc);
    swap(argc, 7);
    swap(argc + 1, 50);
    bump(1);
    return use() + count;
}
"#;
const FAILING_LINE: u32 = 13;

#[test]
fn an_update_is_hooked_as_load_and_store_and_the_program_still_works() {
    let folder = tempfile::tempdir().unwrap();
    let plan = whole_plan(folder.path(), SOURCE, FAILING_LINE);
    let branches = modules::branches(folder.path(), SOURCE, &plan);
    let context = Context::create();
    let buffer =
        MemoryBuffer::create_from_memory_range_copy(&bitcode(folder.path(), SOURCE, &[]), "p");
    let module = Module::parse_bitcode_from_buffer(&buffer, &context).unwrap();
    let mut placement = Placement::default();
    assert!(instrumenter::place(&context, &module, &branches, &plan, &mut placement).unwrap());
    module.verify().unwrap();

    for line in [5, 9] {
        for kind in [PointKind::Load, PointKind::Store] {
            let placed: u32 = plan
                .sites
                .iter()
                .filter(|site| site.kind == kind)
                .filter(|site| {
                    plan.statements
                        .iter()
                        .any(|s| s.id == site.statement && s.location.line == line)
                })
                .map(|site| placement.places[site.id.0 as usize])
                .sum();
            assert!(placed >= 1, "{kind:?} of line {line}");
        }
    }
    // The new value is the old one plus the operand, and a store that did not
    // happen is told.
    let text = module.print_to_string().to_string();
    let bump = text
        .split("@bump")
        .nth(1)
        .expect("bump")
        .split("\n}")
        .next();
    assert!(bump.is_some_and(|b| b.contains(" add i32 ")), "{text}");
    let swap = text
        .split("@swap")
        .nth(1)
        .expect("swap")
        .split("\n}")
        .next();
    assert!(swap.is_some_and(|b| b.contains(", 30")), "{text}");

    // Without an agent the program does what it always did.
    let hooked = folder.path().join("hooked.bc");
    module.write_bitcode_to_path(&hooked);
    let runtime = folder.path().join(runtime::LINKABLE_FILE_NAME);
    fs::write(&runtime, runtime::LINKABLE).unwrap();
    let run = |inputs: &[&Path]| {
        let program = folder.path().join("program");
        let linked = Command::new("clang-19")
            .arg("-o")
            .arg(&program)
            .args(inputs)
            .status()
            .expect("clang-19 runs");
        assert!(linked.success());
        Command::new(&program).status().expect("runs").code()
    };
    let plain = run(&[&folder.path().join("p.bc")]);
    assert_eq!(plain, Some(8));
    assert_eq!(run(&[&hooked, &runtime]), plain);
}
