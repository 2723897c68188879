//! Dependencies point the way the map in ARCHITECTURE.md says, and heavy
//! libraries stay where they belong. Asked of cargo, not of the manifests' text.

use super::{read, root};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

/// The rows of the map in ARCHITECTURE.md: folder → rooms it may depend on.
fn allowed() -> BTreeMap<String, BTreeSet<String>> {
    let architecture = read("ARCHITECTURE.md");
    let rows = architecture.lines().filter_map(|line| {
        let cells: Vec<_> = line.split('|').map(str::trim).collect();
        let folder = cells.get(1)?.strip_prefix('`')?.strip_suffix("/`")?;
        let rooms = cells
            .get(3)?
            .split(',')
            .map(|room| room.trim().trim_matches('`').to_owned())
            .filter(|room| room != "–")
            .collect();
        Some((folder.to_owned(), rooms))
    });
    rows.collect()
}

fn cargo(arguments: &[&str]) -> String {
    let run = Command::new(env!("CARGO"))
        .args(arguments)
        .current_dir(root())
        .output()
        .expect("cargo runs");
    assert!(
        run.status.success(),
        "{}",
        String::from_utf8_lossy(&run.stderr)
    );
    String::from_utf8(run.stdout).expect("cargo prints text")
}

/// What cargo says of each package: its folder, and the workspace's packages
/// that it uses outside of tests.
pub fn actual() -> BTreeMap<String, BTreeSet<String>> {
    let printed = cargo(&[
        "metadata",
        "--offline",
        "--no-deps",
        "--format-version",
        "1",
    ]);
    let metadata: Value = serde_json::from_str(&printed).expect("cargo prints JSON");
    let top = Path::new(metadata["workspace_root"].as_str().expect("a path"));
    let packages = metadata["packages"].as_array().expect("packages");
    let members: BTreeSet<_> = packages.iter().filter_map(|p| p["name"].as_str()).collect();
    packages
        .iter()
        .map(|package| {
            let manifest = Path::new(package["manifest_path"].as_str().expect("a path"));
            let folder = manifest.parent().expect("a folder");
            let folder = folder.strip_prefix(top).expect("below the workspace");
            let used = package["dependencies"].as_array().expect("dependencies");
            let used = used
                .iter()
                .filter(|d| d["kind"].as_str() != Some("dev"))
                .filter_map(|d| d["name"].as_str())
                .filter(|name| members.contains(name))
                .map(str::to_owned)
                .collect();
            (folder.display().to_string(), used)
        })
        .collect()
}

#[test]
fn dependencies_point_the_way_the_architecture_says() {
    let (allowed, actual) = (allowed(), actual());
    assert!(actual.contains_key("sketch-server"), "{actual:?}");
    let unknown: Vec<_> = actual
        .keys()
        .filter(|f| !allowed.contains_key(*f))
        .collect();
    assert!(
        unknown.is_empty(),
        "not in ARCHITECTURE.md's map: {unknown:?}"
    );
    for (folder, dependencies) in &actual {
        let extra: Vec<_> = dependencies.difference(&allowed[folder]).collect();
        assert!(
            extra.is_empty(),
            "{folder} depends on {extra:?}, which the map does not allow"
        );
    }
}

/// Everything that a package links, by name and version.
fn tree(package: &str) -> String {
    let tree = cargo(&[
        "tree",
        "--offline",
        "-p",
        package,
        "-e",
        "normal",
        "--prefix",
        "none",
    ]);
    assert!(tree.contains("sketch-model"), "{tree}");
    tree
}

fn assert_links_none(package: &str, heavy: &[&str]) {
    let tree = tree(package);
    for name in heavy {
        assert!(!tree.contains(name), "{package} links {name}");
    }
}

#[test]
fn the_agent_links_neither_llvm_nor_libipt_nor_anything_that_signs() {
    assert_links_none(
        "client-agent",
        &["inkwell", "llvm-sys", "libipt", "minisign v"],
    );
}

#[test]
fn whoever_controls_a_process_needs_neither_server_nor_keys() {
    let heavy = ["tokio v", "ureq", "rustls v", "minisign", "code-patch"];
    assert_links_none("process-control", &heavy);
}

#[test]
fn decisions_need_neither_server_nor_compiler() {
    for room in [
        "diagnosis",
        "schedules",
        "races",
        "race-prediction",
        "process-races",
    ] {
        let heavy = ["tokio v", "axum v", "sqlx", "inkwell", "llvm-sys", "libipt"];
        assert_links_none(room, &heavy);
    }
}
