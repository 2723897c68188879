//! Clippy reads every `unsafe` block: what it does not compile, nobody would ask for the
//! reason why it holds. That goes above all for code inside the program under diagnosis,
//! which `crates/runtime/build.rs` compiles without cargo.

use super::{dependencies, read, root, rust_files};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Where cargo finds code of a package.
const COMPILED: [&str; 5] = ["src", "tests", "benches", "examples", "build.rs"];

fn members() -> BTreeSet<PathBuf> {
    dependencies::actual()
        .into_keys()
        .map(PathBuf::from)
        .collect()
}

/// Whether a file is where cargo, and so clippy, compiles it.
fn is_compiled(path: &Path, members: &BTreeSet<PathBuf>) -> bool {
    path.ancestors()
        .skip(1)
        .filter(|folder| members.contains(*folder))
        .filter_map(|folder| path.strip_prefix(folder).ok()?.iter().next())
        .any(|first| COMPILED.iter().any(|place| first == *place))
}

/// Whether it has the word outside of comments.
fn has_unsafe_code(text: &str) -> bool {
    text.lines()
        .filter_map(|line| line.split("//").next())
        .flat_map(|code| code.split(|c: char| !c.is_alphanumeric() && c != '_'))
        .any(|word| word == "unsafe")
}

#[test]
fn members_have_the_lints_of_the_workspace() {
    let without: Vec<_> = members()
        .into_iter()
        .filter(|folder| !read(folder.join("Cargo.toml")).contains("[lints]\nworkspace = true"))
        .collect();
    assert!(without.is_empty(), "without the lints: {without:?}");
    let workspace = read("Cargo.toml");
    for lint in ["undocumented_unsafe_blocks", "unsafe_op_in_unsafe_fn"] {
        assert!(workspace.contains(&format!("{lint} = \"deny\"")), "{lint}");
    }
}

#[test]
fn code_inside_the_program_is_linted_like_all_other() {
    let members = members();
    let folders = std::fs::read_dir(root().join("crates/inprocess")).expect("is there");
    let names: Vec<_> = folders
        .map(|entry| entry.expect("can be read").file_name())
        .collect();
    assert!(names.len() >= 5, "{names:?}");
    for name in names {
        let folder = Path::new("crates/inprocess").join(name);
        assert!(members.contains(&folder), "{folder:?} is no member");
    }
}

#[test]
fn no_unsafe_code_is_hidden_from_clippy() {
    let members = members();
    let (mut seen, mut hidden) = (0, Vec::new());
    for path in rust_files() {
        if has_unsafe_code(&read(&path)) {
            seen += 1;
            if !is_compiled(&path, &members) {
                hidden.push(path);
            }
        }
    }
    assert!(seen > 20, "only {seen} files have unsafe code");
    assert!(hidden.is_empty(), "not compiled by cargo: {hidden:?}");
}

#[test]
fn the_rule_knows_code_from_comments_and_members_from_other_folders() {
    assert!(has_unsafe_code("    unsafe { call() }\n"));
    assert!(!has_unsafe_code("// unsafe\nfn unsafe_looking() {}\n"));
    let members = BTreeSet::from([PathBuf::from("crates/runtime")]);
    assert!(is_compiled(
        Path::new("crates/runtime/src/a/b.rs"),
        &members
    ));
    assert!(!is_compiled(
        Path::new("crates/runtime/inprocess/sys.rs"),
        &members
    ));
    assert!(!is_compiled(Path::new("crates/other/src/lib.rs"), &members));
}
