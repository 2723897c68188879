//! Nothing that diagnoses knows which bugs there are.
//!
//! The code of every room but this one is searched for the names of the bugs and of
//! their source files. Comments and unit tests may give examples.

use std::fs;
use std::path::{Path, PathBuf};

fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
}

/// Folders with a description, and the sources in them.
fn names() -> Vec<String> {
    let mut names = Vec::new();
    for entry in fs::read_dir(env!("CARGO_MANIFEST_DIR")).unwrap() {
        let folder = entry.unwrap().path();
        if !folder.join("bug.toml").is_file() {
            continue;
        }
        names.push(folder.file_name().unwrap().to_string_lossy().into_owned());
        for file in fs::read_dir(&folder).unwrap() {
            let file = file.unwrap().path();
            if matches!(file.extension().and_then(|e| e.to_str()), Some("c" | "cpp")) {
                names.push(file.file_name().unwrap().to_string_lossy().into_owned());
            }
        }
    }
    names
}

fn rust_files(folder: &Path, into: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            rust_files(&path, into);
        } else if path.extension().is_some_and(|e| e == "rs") {
            into.push(path);
        }
    }
}

/// The lines that become part of the product: no comments, no unit tests.
fn code(text: &str) -> impl Iterator<Item = &str> {
    text.lines()
        .take_while(|line| !line.starts_with("#[cfg(test)]"))
        .filter(|line| !line.trim_start().starts_with("//"))
}

/// Whether the name stands by itself: `server.c` is not part of `server.clone()`.
fn has_word(line: &str, name: &str) -> bool {
    line.match_indices(name).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        let after = line[at + name.len()..].chars().next();
        let is_word = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
        !is_word(before) && !is_word(after)
    })
}

fn mentions(text: &str, names: &[String]) -> Vec<String> {
    code(text)
        .filter(|line| names.iter().any(|name| has_word(line, name)))
        .map(str::to_owned)
        .collect()
}

#[test]
fn no_other_room_knows_a_bug() {
    let names = names();
    assert!(names.iter().any(|name| name == "pbzip2"));
    let rooms = [
        "slicer",
        "sketch-server",
        "viewer",
        "client-agent",
        "pt-decoder",
    ];
    let mut rooms: Vec<_> = rooms.iter().map(|room| root().join(room)).collect();
    for folder in ["crates", "crates/inprocess"] {
        let rooms_in = fs::read_dir(root().join(folder)).unwrap();
        let rooms_in = rooms_in.map(|entry| entry.unwrap().path());
        rooms.extend(rooms_in.filter(|room| room.join("Cargo.toml").is_file()));
    }
    for room in rooms.iter().filter(|room| !room.ends_with("test-support")) {
        let mut files = Vec::new();
        rust_files(&room.join("src"), &mut files);
        assert!(!files.is_empty(), "{} has no sources", room.display());
        for file in files {
            let found = mentions(&fs::read_to_string(&file).unwrap(), &names);
            assert!(found.is_empty(), "{}: {found:?}", file.display());
        }
    }
}

#[test]
fn the_search_finds_what_it_is_for() {
    let names = ["pbzip2".to_owned()];
    let text = "//! pbzip2\nif program == \"pbzip2\" {\n    // pbzip2\n}\n#[cfg(test)]\npbzip2\n";
    assert_eq!(mentions(text, &names), ["if program == \"pbzip2\" {"]);
    let source = ["server.c".to_owned()];
    assert_eq!(mentions("let s = server.clone();", &source), [""; 0]);
    assert_eq!(mentions("\"server.c\"", &source), ["\"server.c\""]);
}
