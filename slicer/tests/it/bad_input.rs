//! Bytes that are no program: each gives an error that names the module.

use crate::common::*;
use slicer::{ModuleInput, Program, SlicerError};

fn load_error(bitcode: &[u8]) -> SlicerError {
    let input = ModuleInput {
        name: "broken.c",
        bitcode,
    };
    Program::load(build_id(), &[input]).expect_err("these bytes are no program")
}

#[test]
fn no_modules() {
    let error = Program::load(build_id(), &[]).expect_err("nothing is no program");
    assert_eq!(error, SlicerError::NoModules);
}

#[test]
fn an_empty_module() {
    let error = load_error(&[]).to_string();
    assert!(
        error.contains("broken.c") && error.contains("empty"),
        "{error}"
    );
}

#[test]
fn foreign_bytes() {
    let error = load_error(b"\x7fELF and so on").to_string();
    assert!(error.contains("broken.c is not LLVM bitcode"), "{error}");
    assert!(error.contains("[7f, 45, 4c, 46]"), "{error}");
}

#[test]
fn the_right_magic_and_then_noise() {
    // A fixed xorshift: the same noise every time.
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    for length in [0, 1, 4, 60, 61, 1000, 4096] {
        let mut bytes = b"BC\xC0\xDE".to_vec();
        for _ in 0..length {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            bytes.push(state as u8);
        }
        let error = load_error(&bytes);
        let SlicerError::Unreadable { module, problem } = &error else {
            panic!("{error}");
        };
        assert_eq!(module, "broken.c");
        assert!(!problem.is_empty() && problem != "LLVM gave no reason");
    }
}

#[test]
fn a_module_cut_off_anywhere() {
    let bitcode = compile(&programs_folder().join("pbzip2_queue.c"), &[]);
    for length in (1..bitcode.len()).step_by(997) {
        let error = load_error(&bitcode[..length]);
        assert!(error.to_string().contains("broken.c"), "{error}");
    }
}

#[test]
fn a_module_without_debug_info() {
    let bitcode = compile(&programs_folder().join("global_same.c"), &["-g0"]);
    let error = load_error(&bitcode).to_string();
    assert!(error.contains("broken.c has no debug info"), "{error}");
    assert!(error.contains("-g"), "{error}");
}

#[test]
fn one_module_of_two_without_debug_info_is_a_gap() {
    let good = compile(&programs_folder().join("global_same.c"), &[]);
    let bare = compile(&programs_folder().join("recursion.c"), &["-g0"]);
    let inputs = [
        ModuleInput {
            name: "good.c",
            bitcode: &good,
        },
        ModuleInput {
            name: "bare.c",
            bitcode: &bare,
        },
    ];
    let program = Program::load(build_id(), &inputs).expect("one module is good");
    assert!(program.statement_at(None, "global_same.c", 6).is_some());
    let [gap] = &program.gaps()[..] else {
        panic!("{:?}", program.gaps());
    };
    let sentence = gap.to_string();
    assert!(sentence.contains("bare.c has no debug info"), "{gap}");
}
