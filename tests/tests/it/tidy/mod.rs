//! Enforces what prose cannot: headers, sizes, the directions of dependencies,
//! and that documents and comments name only what exists.

mod dependencies;
mod lints;
mod named_paths;
mod sizes;

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

fn rust_files() -> impl Iterator<Item = PathBuf> {
    files()
        .into_iter()
        .filter(|path| path.extension().is_some_and(|e| e == "rs"))
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
