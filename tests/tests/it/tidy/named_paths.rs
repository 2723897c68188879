//! Paths that documents and comments name must exist: prose that nothing checks
//! names what is gone.

use super::{read, root, rust_files};
use std::path::Path;

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

/// The words of a comment that are meant as paths of this repository: Markdown
/// files by any name, other source files where a folder is named too.
fn paths_in(comment: &str) -> impl Iterator<Item = &str> {
    let is_part = |c: char| c.is_alphanumeric() || "/._-{},*<>$".contains(c);
    comment
        .split(move |c: char| !is_part(c))
        .map(|word| word.trim_end_matches(['.', ',', '-']))
        .filter(|word| !word.contains(['{', ',', '*', '<', '>', '$']))
        .filter(|word| !word.starts_with('/') && !word.contains("//"))
        .filter(|word| {
            let source = word.ends_with(".rs") || word.ends_with(".sh");
            word.ends_with(".md") || (source && word.contains('/'))
        })
}

/// A path may be written from the repository, from its crate, from the crate's
/// sources, or from any folder above the file that names it.
fn exists(path: &str, named_by: &Path) -> bool {
    named_by.ancestors().skip(1).any(|folder| {
        let folder = root().join(folder);
        folder.join(path).exists() || folder.join("src").join(path).exists()
    })
}

#[test]
fn comments_name_only_what_exists() {
    let mut gone = Vec::new();
    for file in rust_files() {
        let text = read(&file);
        let comments = text.lines().filter_map(|line| line.split_once("//"));
        for (_, comment) in comments {
            let missing = paths_in(comment).filter(|path| !exists(path, &file));
            // A document by its title and section, which no path finds.
            let missing = missing.chain(comment.contains("DESIGN §").then_some("DESIGN"));
            gone.extend(missing.map(|path| format!("{}: {path}", file.display())));
        }
    }
    assert!(
        gone.is_empty(),
        "comments name what is not there: {gone:#?}"
    );
}

#[test]
fn documents_name_only_what_exists() {
    let inside = std::fs::read_dir(root().join("docs")).expect("docs");
    let docs = inside.map(|entry| Path::new("docs").join(entry.expect("an entry").file_name()));
    let documents = ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md"].map(Into::into);
    let documents = docs
        .chain(documents)
        .filter(|path| path.extension().is_some_and(|e| e == "md"));
    let mut gone = Vec::new();
    for document in documents {
        let text = read(&document);
        let missing = paths_in(&text).filter(|path| !exists(path, &document));
        gone.extend(missing.map(|path| format!("{}: {path}", document.display())));
    }
    assert!(
        gone.is_empty(),
        "documents name what is not there: {gone:#?}"
    );
}

#[test]
fn words_that_are_paths_are_recognised() {
    let found: Vec<_> =
        paths_in("see docs/statistics.md, `src/lib.rs` and a/{b,c}.rs; http://x/y").collect();
    assert_eq!(found, ["docs/statistics.md", "src/lib.rs"]);
}

#[test]
fn the_glossary_names_only_types_that_exist() {
    let glossary = read("docs/glossary.md");
    let rows = glossary.lines().filter(|line| line.starts_with("| **"));
    let cells = rows.filter_map(|row| row.split('|').nth(3));
    let named: Vec<_> = cells
        .flat_map(|cell| cell.split(['`', ':']))
        .filter(|word| word.starts_with(char::is_uppercase))
        .collect();
    assert!(named.len() > 20, "{named:?}");
    let sources: String = rust_files().map(read).collect();
    let words: std::collections::BTreeSet<_> = sources
        .split(|c: char| !c.is_alphanumeric() && c != '_')
        .collect();
    let gone: Vec<_> = named.iter().filter(|name| !words.contains(*name)).collect();
    assert!(
        gone.is_empty(),
        "the glossary names types that are gone: {gone:?}"
    );
}
