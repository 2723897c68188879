//! The stored form of a program: it slices alike, and any other bytes are refused.

use crate::common::*;
use proptest::prelude::*;
use sketch_model::{BuildId, StatementId};
use slicer::{GraphError, Program, backward_slice};
use std::sync::OnceLock;

fn programs() -> Vec<Program> {
    let names = [
        "pbzip2_queue.c",
        "std_thread_member.cpp",
        "signal_sigaction.c",
    ];
    let paths = names.map(|name| programs_folder().join(name));
    paths.iter().map(|path| load_file(path)).collect()
}

#[test]
fn a_stored_program_gives_the_same_slices() {
    for program in programs() {
        let bytes = program.to_bytes();
        let again = Program::from_bytes(program.build(), &bytes).expect("its own bytes");
        assert_eq!(again.statements(), program.statements());
        assert_eq!(again.gaps(), program.gaps());
        for info in program.statements() {
            let slice = |p: &Program| backward_slice(p, info.id, &[], &no_source);
            assert_eq!(slice(&again), slice(&program), "{}", info.location);
        }
    }
}

#[test]
fn the_same_bitcode_gives_the_same_bytes() {
    for (one, other) in programs().iter().zip(programs()) {
        assert!(one.to_bytes() == other.to_bytes());
    }
}

#[test]
fn foreign_bytes_other_versions_and_other_builds_are_told_apart() {
    let program = load_file(&programs_folder().join("global_same.c"));
    let bytes = program.to_bytes();
    let error = |build: &BuildId, bytes: &[u8]| {
        let read = Program::from_bytes(build, bytes);
        read.expect_err("these are refused")
    };
    assert_eq!(error(&build_id(), b""), GraphError::Foreign);
    assert_eq!(error(&build_id(), b"BC\xC0\xDE"), GraphError::Foreign);
    let mut newer = bytes.clone();
    newer[8] += 1;
    assert_eq!(error(&build_id(), &newer), GraphError::OtherVersion);
    let other = BuildId("4567".to_owned());
    assert_eq!(error(&other, &bytes), GraphError::OtherBuild);
    let mut longer = bytes.clone();
    longer.push(0);
    assert_eq!(error(&build_id(), &longer), GraphError::Damaged);
    for length in (40..bytes.len()).step_by(211) {
        assert_eq!(error(&build_id(), &bytes[..length]), GraphError::Damaged);
    }
}

/// The graph of global_same.c as the last version wrote it, in format 1.
const FORMAT_1: &[u8] = include_bytes!("../data/graph-format-1.bin");

#[test]
fn a_graph_of_the_last_version_is_refused_not_misread() {
    let read = Program::from_bytes(&build_id(), FORMAT_1);
    assert_eq!(read.expect_err("it is old"), GraphError::OtherVersion);
    // Even if its fingerprint were that of this version.
    let new = load_file(&programs_folder().join("global_same.c")).to_bytes();
    let fingerprint = 11..27;
    let mut disguised = FORMAT_1.to_vec();
    disguised[fingerprint.clone()].copy_from_slice(&new[10..26]);
    let read = Program::from_bytes(&build_id(), &disguised);
    assert_eq!(
        read.expect_err("its format is old"),
        GraphError::OtherVersion
    );
}

#[test]
fn a_count_beyond_the_bytes_is_refused_and_reserves_nothing() {
    let whole = load_file(&programs_folder().join("global_same.c")).to_bytes();
    // Mark, format, fingerprint and build, each text with its length.
    let head = 8 + 1 + 1 + 16 + 1 + build_id().0.len();
    for count in [1_u64 << 20, 1 << 36, 1 << 60, u64::MAX] {
        // The count of functions, which comes first, as a varint.
        let mut bytes = whole[..head].to_vec();
        let mut rest = count;
        while rest >= 0x80 {
            bytes.push(rest as u8 | 0x80);
            rest >>= 7;
        }
        bytes.push(rest as u8);
        let read = Program::from_bytes(&build_id(), &bytes);
        assert_eq!(read.expect_err("cut off"), GraphError::Damaged, "{count}");
    }
}

/// The bytes of a program with threads, fields and function pointers.
fn example() -> &'static [u8] {
    static BYTES: OnceLock<Vec<u8>> = OnceLock::new();
    BYTES.get_or_init(|| load_file(&programs_folder().join("pbzip2_queue.c")).to_bytes())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    /// No checksum stands before these bytes: what reading lets through must be
    /// safe to slice.
    #[test]
    fn mutated_bytes_never_panic(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        from in 0..60u32,
    ) {
        let mut bytes = example().to_vec();
        for (position, value) in changes {
            // Behind the header, whose change is always noticed.
            let body = bytes.len() - 40;
            bytes[40 + position.index(body)] = value;
        }
        if let Ok(program) = Program::from_bytes(&build_id(), &bytes) {
            let stack = [StatementId(from + 1), StatementId(from / 2)];
            backward_slice(&program, StatementId(from), &stack, &no_source);
        }
    }
}
