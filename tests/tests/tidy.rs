//! Enforces what prose cannot: headers, sizes, the directions of dependencies
//! and the truth of ARCHITECTURE.md.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
}

/// The files of the project: those git tracks, or would if asked.
fn files() -> Vec<PathBuf> {
    let listed = Command::new("git")
        .args(["ls-files", "--cached", "--others", "--exclude-standard"])
        .current_dir(root())
        .output()
        .expect("git lists the files");
    assert!(
        listed.status.success() && !listed.stdout.is_empty(),
        "git does not list the files: {}",
        String::from_utf8_lossy(&listed.stderr)
    );
    String::from_utf8(listed.stdout)
        .expect("paths are text")
        .lines()
        .map(PathBuf::from)
        .filter(|path| root().join(path).is_file())
        .collect()
}

fn read(path: impl AsRef<Path>) -> String {
    let path = root().join(path);
    fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

#[test]
fn every_file_says_what_it_is_for() {
    let silent: Vec<_> = files()
        .into_iter()
        .filter(|path| {
            let opening = match path.extension().and_then(|e| e.to_str()) {
                Some("rs") => "//!",
                Some("c" | "cpp" | "h") => "/",
                Some("sh") => "#!",
                _ => return false,
            };
            !read(path).starts_with(opening)
        })
        .collect();
    assert!(silent.is_empty(), "no header: {silent:?}");
}

#[test]
fn a_file_is_one_idea() {
    let long: Vec<_> = files()
        .into_iter()
        .filter(|path| path.extension().is_some_and(|e| e == "rs"))
        .map(|path| (read(&path).lines().count(), path))
        .filter(|(lines, _)| *lines > 600)
        .collect();
    assert!(long.is_empty(), "over 600 lines: {long:?}");
}

/// The rows of the map in ARCHITECTURE.md: folder → rooms it may depend on.
fn allowed() -> BTreeMap<String, BTreeSet<String>> {
    let architecture = read("ARCHITECTURE.md");
    let rows = architecture.lines().filter_map(|line| {
        let cells: Vec<_> = line.split('|').map(str::trim).collect();
        let folder = cells.get(1)?.strip_prefix('`')?.strip_suffix("/`")?;
        let depends = cells.get(3)?;
        let rooms = depends
            .split(',')
            .map(|room| room.trim().trim_matches('`').to_owned())
            .filter(|room| room != "–")
            .collect();
        Some((folder.to_owned(), rooms))
    });
    rows.collect()
}

/// The workspace's crates that each folder's manifest names, outside of tests.
fn actual() -> BTreeMap<String, BTreeSet<String>> {
    let workspace = read("Cargo.toml");
    let members = workspace
        .split("members = [")
        .nth(1)
        .and_then(|rest| rest.split(']').next())
        .expect("the workspace lists its members");
    let folders: Vec<_> = members.split('"').skip(1).step_by(2).collect();
    let dependencies = |folder: &str| {
        let manifest = read(format!("{folder}/Cargo.toml"));
        manifest
            .split("\n[")
            .filter(|section| section.starts_with("dependencies]"))
            .flat_map(|section| section.lines().skip(1))
            .filter_map(|line| line.split(['=', '.', ' ']).next())
            .filter(|name| folders.contains(name))
            .map(str::to_owned)
            .collect()
    };
    folders
        .iter()
        .map(|folder| ((*folder).to_owned(), dependencies(folder)))
        .collect()
}

#[test]
fn dependencies_point_the_way_the_architecture_says() {
    let (allowed, actual) = (allowed(), actual());
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

#[test]
fn the_agent_links_neither_llvm_nor_libipt() {
    let tree = Command::new(env!("CARGO"))
        .args([
            "tree",
            "--offline",
            "-p",
            "client-agent",
            "-e",
            "normal",
            "--prefix",
            "none",
        ])
        .current_dir(root())
        .output()
        .expect("cargo prints the tree");
    assert!(
        tree.status.success(),
        "{}",
        String::from_utf8_lossy(&tree.stderr)
    );
    let tree = String::from_utf8(tree.stdout).expect("names are text");
    assert!(tree.contains("sketch-model"), "{tree}");
    for heavy in ["inkwell", "llvm-sys", "libipt", "minisign v"] {
        assert!(!tree.contains(heavy), "client-agent links {heavy}");
    }
}

#[test]
fn architecture_names_only_what_exists() {
    let architecture = read("ARCHITECTURE.md");
    assert!(
        architecture.lines().count() <= 300,
        "ARCHITECTURE.md is over 300 lines"
    );
    let named = architecture.split('`').skip(1).step_by(2).filter(|word| {
        let is_path = word.contains('/') || word.ends_with(".md");
        is_path && !word.contains([' ', '<', '{', '*', ':', '$']) && !word.starts_with('/')
    });
    let gone: Vec<_> = named.filter(|path| !root().join(path).exists()).collect();
    assert!(
        gone.is_empty(),
        "ARCHITECTURE.md names what is not there: {gone:?}"
    );
}
