//! One small module: compiled, sliced and planned whole.
#![allow(dead_code)] // each test file uses its part

use inkwell::context::Context;
use inkwell::memory_buffer::MemoryBuffer;
use inkwell::module::Module;
use instrumenter::SourceBranches;
use sketch_model::{BuildId, Slice, TrackingPlan};
use slicer::{ModuleInput, PlanRequest, Program, backward_slice, plan};
use std::{fs, path::Path, process::Command};

/// Compiles a source to optimised bitcode, or as the flags say.
pub fn bitcode(folder: &Path, text: &str, flags: &[&str]) -> Vec<u8> {
    let (source, output) = (folder.join("p.c"), folder.join("p.bc"));
    fs::write(&source, text).unwrap();
    let compiled = Command::new("clang-19")
        .args(["-g", "-O2", "-emit-llvm", "-c"])
        .args(flags)
        .arg(&source)
        .arg("-o")
        .arg(&output)
        .status()
        .expect("clang-19 runs");
    assert!(compiled.success());
    fs::read(output).unwrap()
}

/// The branches of a plan in a source, as they were written.
pub fn branches(folder: &Path, text: &str, plan: &TrackingPlan) -> SourceBranches {
    let context = Context::create();
    let parse = |bitcode: &[u8]| {
        let buffer = MemoryBuffer::create_from_memory_range_copy(bitcode, "p");
        Module::parse_bitcode_from_buffer(&buffer, &context).unwrap()
    };
    let written = parse(&bitcode(folder, text, &["-Xclang", "-disable-llvm-passes"]));
    let optimised = parse(&bitcode(folder, text, &[]));
    SourceBranches::read(&context, &written, &optimised, plan)
}

/// The plan for the whole slice of a line.
pub fn whole_plan(folder: &Path, text: &str, failing_line: u32) -> TrackingPlan {
    let (_, slice) = sliced(folder, text, failing_line);
    plan(&slice, u32::MAX, &[])
}

/// As a server makes it: the one that watches most.
pub fn server_plan(folder: &Path, text: &str, failing_line: u32) -> TrackingPlan {
    let (program, slice) = sliced(folder, text, failing_line);
    let ask = PlanRequest::all(u32::MAX);
    let iteration = slicer::plan_iteration(&program, &slice, &ask, &|_| None);
    iteration.plans[0].clone()
}

fn sliced(folder: &Path, text: &str, failing_line: u32) -> (Program, Slice) {
    let unoptimised = bitcode(folder, text, &["-Xclang", "-disable-llvm-passes"]);
    let module = ModuleInput {
        name: "p.c",
        bitcode: &unoptimised,
    };
    let program = Program::load(BuildId("test".into()), &[module]).unwrap();
    let file = folder.join("p.c");
    let failing = program
        .statement_at(None, &file.to_string_lossy(), failing_line)
        .unwrap();
    let slice = backward_slice(&program, failing, &[], &|_| None);
    (program, slice)
}
