//! Sizes: of files, of folders, and of the whole, by one rule.

use super::{read, rust_files};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

const MOST_LINES_OF_A_FILE: usize = 600;
const MOST_FILES_OF_A_FOLDER: usize = 20;

#[test]
fn a_file_is_one_idea() {
    let long: Vec<_> = rust_files()
        .map(|path| (read(&path).lines().count(), path))
        .filter(|(lines, _)| *lines > MOST_LINES_OF_A_FILE)
        .collect();
    assert!(
        long.is_empty(),
        "over {MOST_LINES_OF_A_FILE} lines: {long:?}"
    );
}

#[test]
fn a_folder_can_be_taken_in_at_a_glance() {
    let mut folders: BTreeMap<PathBuf, usize> = BTreeMap::new();
    for path in rust_files() {
        *folders
            .entry(path.parent().unwrap_or(Path::new("")).to_owned())
            .or_default() += 1;
    }
    let crowded: Vec<_> = folders
        .iter()
        .filter(|(_, count)| **count > MOST_FILES_OF_A_FOLDER)
        .collect();
    assert!(
        crowded.is_empty(),
        "over {MOST_FILES_OF_A_FOLDER} source files in one folder: {crowded:?}"
    );
}

/// The lines of a file that are shipped: everything but inline test modules.
fn production_lines(text: &str) -> usize {
    let mut count = 0;
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        let opens_tests = line == "#[cfg(test)]"
            && lines
                .peek()
                .is_some_and(|next| next.starts_with("mod ") && next.ends_with('{'));
        if opens_tests {
            for inside in lines.by_ref() {
                if inside == "}" {
                    break;
                }
            }
        } else {
            count += 1;
        }
    }
    count
}

/// Whether a file holds nothing but tests, or what only tests and measurements use.
fn is_test_code(path: &Path) -> bool {
    let in_folder = path.iter().any(|part| {
        ["tests", "benches", "examples", "test-support"]
            .iter()
            .any(|name| part == *name)
    });
    let name = path.file_stem().and_then(|n| n.to_str()).unwrap_or("");
    in_folder || name.ends_with("_tests") || ["fake", "properties"].contains(&name)
}

/// The crate of a file: its path up to `src` or whatever stands in its place.
fn room(path: &Path) -> String {
    let parts: Vec<_> = path.iter().filter_map(|part| part.to_str()).collect();
    let depth = match parts.first() {
        Some(&"crates") if parts.get(1) == Some(&"inprocess") => 3,
        Some(&"crates") => 2,
        _ => 1,
    };
    parts[..depth.min(parts.len())].join("/")
}

/// Prints what was counted (`cargo test -p system-tests --test it lines -- --nocapture`).
#[test]
fn production_lines_are_counted_by_one_rule() {
    let mut rooms: BTreeMap<String, usize> = BTreeMap::new();
    for path in rust_files().filter(|path| !is_test_code(path)) {
        *rooms.entry(room(&path)).or_default() += production_lines(&read(&path));
    }
    for (room, lines) in &rooms {
        println!("{lines:>7} {room}");
    }
    println!("{:>7} production lines", rooms.values().sum::<usize>());
    assert!(rooms.contains_key("sketch-server"), "{rooms:?}");
}

#[test]
fn the_rule_leaves_out_inline_tests_and_nothing_else() {
    let text = "//! Header.\nfn a() {}\n\n#[cfg(test)]\nmod tests {\n    fn b() {}\n}\nfn c() {}\n";
    assert_eq!(production_lines(text), 4);
    assert_eq!(production_lines("#[cfg(test)]\nuse x;\n"), 2);
}
