//! A tracked build that must not or cannot be run: the untouched program runs,
//! and operator and record learn why.

mod common;

use common::{FakeServer, Workshop, signed_patch};
use sketch_model::Outcome;
use std::{fs, path::Path};

#[test]
fn a_tampered_patch_is_refused_and_the_untouched_program_runs() {
    let workshop = Workshop::new();
    let pair = workshop.compile_pair(&[]);
    let mut patch = signed_patch(&pair.0, &pair.1);
    let last = patch.bytes.len() - 1;
    patch.bytes[last] ^= 1;
    let server = FakeServer::start(Some(patch));
    let output = workshop
        .agent()
        .args(["--server", &server.url, "--key", &server.key()])
        .args(["--repeat", "2", "--"])
        .arg(&pair.0)
        .arg("kinds")
        .output()
        .expect("the agent starts");
    assert_eq!(output.status.code(), Some(0));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(said.lines().count(), 1, "said once: {said}");
    let records = server.records();
    assert_eq!(records.len(), 2);
    for record in &records {
        assert_eq!(record.variant, None);
        assert!(record.threads.is_empty());
        assert!(
            record.gaps[0].starts_with(
                "the assigned tracked build was not run: the patch was refused: the patch's signature"
            ),
            "{:?}",
            record.gaps
        );
    }
}

#[test]
fn without_a_pinned_key_nothing_from_the_network_is_run() {
    let workshop = Workshop::new();
    let pair = workshop.compile_pair(&[]);
    let server = FakeServer::start(Some(signed_patch(&pair.0, &pair.1)));
    let output = workshop
        .agent()
        .args(["--server", &server.url, "--"])
        .arg(&pair.0)
        .arg("kinds")
        .output()
        .expect("the agent starts");
    assert_eq!(output.status.code(), Some(0));
    let record = &server.records()[0];
    assert_eq!(record.variant, None);
    assert!(record.gaps[0].ends_with("give --key"), "{:?}", record.gaps);
    assert!(!server.paths().iter().any(|path| path.contains("patches")));
}

/// Runs P twice under an agent to which `tracked` is assigned, and checks that
/// both runs were of P, said once to the operator and in each record.
fn p_runs_instead(workshop: &Workshop, base: &Path, tracked: &Path, reason: &str) {
    let server = FakeServer::start(Some(signed_patch(base, tracked)));
    let output = workshop
        .agent()
        .args(["--server", &server.url, "--key", &server.key()])
        .args(["--repeat", "2", "--"])
        .arg(base)
        .args(["crash-after", "3"])
        .output()
        .expect("the agent starts");
    assert_eq!(output.status.code(), Some(0));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(said.matches(reason).count(), 1, "said once: {said}");
    let records = server.records();
    assert_eq!(records.len(), 2);
    for record in &records {
        assert_eq!(record.variant, None);
        assert!(record.gaps[0].contains(reason), "{:?}", record.gaps);
        let Outcome::Failure(report) = &record.outcome else {
            panic!("it crashed");
        };
        assert_eq!(report.threads.len(), 1, "P's crash is captured");
    }
}

#[test]
fn a_tracked_build_that_the_kernel_refuses_is_replaced_by_the_untouched_program() {
    let workshop = Workshop::new();
    let (base, tracked) = workshop.compile_pair(&[]);
    // For another processor: a valid file, which this kernel does not execute.
    let mut bytes = fs::read(&tracked).expect("compiled");
    bytes[18..20].copy_from_slice(&0xf3u16.to_le_bytes());
    fs::write(&tracked, bytes).expect("written");
    p_runs_instead(
        &workshop,
        &base,
        &tracked,
        "the tracked build could not be executed",
    );
}

#[test]
fn a_program_that_finds_its_libraries_beside_itself_is_not_run_from_memory() {
    let workshop = Workshop::new();
    let (base, tracked) = workshop.compile_pair(&["-Wl,-rpath,$ORIGIN/lib"]);
    p_runs_instead(
        &workshop,
        &base,
        &tracked,
        "looks for libraries beside itself ($ORIGIN/lib)",
    );
}
