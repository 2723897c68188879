//! A tracked build that must not or cannot be run: the untouched program runs,
//! and operator and record learn why.

use crate::common::{
    FakeServer, SignedPatch, VARIANT, Workshop, new_key, signed_patch, usual_terms,
};
use code_patch::Terms;
use sketch_model::{Outcome, VariantRef};
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
        assert_eq!(record.execution.tracked(), None);
        assert!(record.threads.is_empty());
        assert!(
            record.gaps[0].to_string().starts_with(
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
    assert_eq!(record.execution.tracked(), None);
    assert!(
        record.gaps[0].to_string().ends_with("give --key"),
        "{:?}",
        record.gaps
    );
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
        assert_eq!(record.execution.tracked(), None);
        assert!(
            record.gaps[0].to_string().contains(reason),
            "{:?}",
            record.gaps
        );
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

/// Runs P under the agent with what the server has now, and an empty store of patches.
/// Whether the tracked build ran, or why not.
fn served(workshop: &Workshop, server: &FakeServer, base: &Path) -> Result<(), String> {
    let cache = workshop.path("cache");
    for entry in fs::read_dir(&cache).into_iter().flatten().flatten() {
        if entry.file_name().to_string_lossy().starts_with("patch-") {
            fs::remove_file(entry.path()).expect("ours to remove");
        }
    }
    let before = server.records().len();
    let output = workshop
        .agent()
        .args(["--server", &server.url, "--key", &server.key(), "--"])
        .arg(base)
        .arg("kinds")
        .output()
        .expect("the agent starts");
    assert_eq!(output.status.code(), Some(0));
    let record = server.records().remove(before);
    match record.execution.tracked() {
        Some(_) => Ok(()),
        None => Err(record.gaps[0].to_string()),
    }
}

#[test]
fn a_patch_that_is_older_than_one_that_was_run_is_refused() {
    let workshop = Workshop::new();
    let (base, tracked) = workshop.compile_pair(&[]);
    let original = fs::read(&base).expect("compiled");
    let key = new_key();
    let patch = |iteration: u32, version: u64| {
        let terms = Terms {
            variant: Some(VariantRef {
                iteration,
                ..VARIANT
            }),
            version,
            ..usual_terms(&base)
        };
        SignedPatch::on_terms(&base, &tracked, &key, terms)
    };
    let server = FakeServer::start(Some(patch(2, 7)));
    let publish = |iteration, version| {
        server.publish(patch(iteration, version));
        served(&workshop, &server, &base)
    };
    assert_eq!(publish(2, 7), Ok(()));
    let older = publish(2, 6).expect_err("is older");
    let reason = "the assigned tracked build was not run: the patch was refused: it is version 6 of \
                  iteration 2, and version 7 of iteration 2 was run here before";
    assert!(older.starts_with(reason), "{older}");
    let earlier = publish(1, 5).expect_err("is of an earlier iteration");
    assert!(
        earlier.contains("it is version 5 of iteration 1"),
        "{earlier}"
    );
    assert_eq!(publish(3, 9), Ok(()));
    let replaced = publish(2, 7).expect_err("is older by now");
    assert!(
        replaced.contains("and version 9 of iteration 3 was run"),
        "{replaced}"
    );
    assert_eq!(fs::read(&base).expect("still there"), original);
}

/// Each for its own reason, and P runs: the signature of somebody else, none at all, a
/// patch cut short, for another program, and one whose time is over.
#[test]
fn every_other_bad_patch_is_refused_with_its_reason_and_the_original_runs() {
    let workshop = Workshop::new();
    let (base, tracked) = workshop.compile_pair(&[]);
    let original = fs::read(&base).expect("compiled");
    let key = new_key();
    let terms = || usual_terms(&base);
    let made = |terms| SignedPatch::on_terms(&base, &tracked, &key, terms);
    let good = made(terms());
    let public_key = good.public_key.clone();
    let with = |bytes: Vec<u8>| {
        let mut patch = made(terms());
        patch.bytes = bytes;
        patch
    };
    let others = {
        let mut patch = signed_patch(&base, &tracked);
        patch.public_key = public_key.clone();
        patch
    };
    // All but the signature: eight bytes say what it is, four how long the signature is.
    let (start, rest) = good.bytes.split_at(8);
    let length = u32::from_le_bytes(rest[..4].try_into().expect("four bytes"));
    let signed = &rest[4 + length as usize..];
    let unsigned = with([start, &[0; 4], signed].concat());
    let truncated = with(good.bytes[..good.bytes.len() / 2].to_vec());
    let expired = made(Terms {
        expires: 1,
        ..terms()
    });
    let for_another = SignedPatch::on_terms(&tracked, &base, &key, terms());
    for (patch, reason) in [
        (others, "signature does not match the pinned key"),
        (unsigned, "signature does not match the pinned key"),
        (truncated, "signature does not match the pinned key"),
        (expired, "the patch expired at 1 "),
        (for_another, "the patch is for a file with SHA-256"),
    ] {
        let server = FakeServer::start(Some(patch));
        let why = served(&workshop, &server, &base).expect_err(reason);
        assert!(why.contains("the patch was refused"), "{why}");
        assert!(why.contains(reason), "{why}");
        assert_eq!(fs::read(&base).expect("still there"), original);
    }
    let server = FakeServer::start(Some(good));
    assert_eq!(served(&workshop, &server, &base), Ok(()));
}
