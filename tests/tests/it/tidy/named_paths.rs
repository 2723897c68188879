//! Paths that documents and comments name must exist: prose that nothing checks
//! names what is gone.

use super::{files, read, root, rust_files};
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

/// Works that anybody can look up; of them a comment may cite sections.
const PUBLISHED: &[&str] = &["ABI", "psABI", "gABI", "SDM", "thesis", "RFC", "DWARF"];

/// A word without what follows a section sign, and without punctuation.
fn bare(word: &str) -> &str {
    let title = word.split('§').next().unwrap_or_default();
    title.trim_matches(|c: char| !c.is_alphanumeric())
}

/// What a text cites by title: the word before a section sign, the upper-case word
/// after "see", an issue by its number. No path leads there, so readers cannot follow.
fn titles_in(text: &str) -> impl Iterator<Item = &str> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let mut titles = Vec::new();
    for (at, word) in words.iter().enumerate() {
        let before = at.checked_sub(1).map_or("", |at| words[at]);
        let number = word
            .trim_start_matches('#')
            .starts_with(|c: char| c.is_ascii_digit());
        let upper = word.len() > 3 && bare(word).chars().all(|c| c.is_ascii_uppercase());
        if word.contains('§') {
            // "thesis §1, §2 and §3": only the first follows its title.
            if before.contains('§') || before == "and" {
                continue;
            }
            let own = bare(word);
            titles.push(if own.is_empty() { bare(before) } else { own });
        } else if upper && bare(before).eq_ignore_ascii_case("see") {
            titles.push(bare(word));
        } else if number && bare(before).eq_ignore_ascii_case("issue") {
            titles.push("issue");
        }
    }
    titles
        .into_iter()
        .filter(|title| !PUBLISHED.contains(title))
}

/// The comments of a source file, each as one text.
fn comments(text: &str, sign: &str) -> Vec<String> {
    let mut comments = vec![String::new()];
    for line in text.lines() {
        match line.split_once(sign) {
            Some((_, comment)) => {
                let comment = comment.trim_start_matches(['/', '!', '#']);
                let open = comments.last_mut().expect("there is one");
                open.push_str(comment);
                open.push(' ');
            }
            None => comments.push(String::new()),
        }
    }
    comments
}

/// What a text names that is not there: files by path, documents by title.
fn gone_in(text: &str, named_by: &Path) -> Vec<String> {
    let paths = paths_in(text).filter(|path| !exists(path, named_by));
    let titles = titles_in(text).filter(|title| !root().join(format!("{title}.md")).exists());
    let gone = paths.chain(titles);
    gone.map(|it| format!("{}: {it}", named_by.display()))
        .collect()
}

#[test]
fn comments_name_only_what_exists() {
    let mut gone = Vec::new();
    for file in files() {
        let sign = match file.extension().and_then(|e| e.to_str()) {
            Some("rs" | "c" | "cpp" | "h" | "js") => "//",
            Some("sh" | "toml") => "#",
            _ => continue,
        };
        for comment in comments(&read(&file), sign) {
            gone.extend(gone_in(&comment, &file));
        }
    }
    assert!(
        gone.is_empty(),
        "comments name what is not there: {gone:#?}"
    );
}

#[test]
fn documents_name_only_what_exists() {
    let documents = files().into_iter().filter(|path| {
        let of_ours = path
            .parent()
            .is_some_and(|folder| folder == Path::new("") || folder == Path::new("docs"));
        of_ours && path.extension().is_some_and(|e| e == "md")
    });
    let gone: Vec<_> = documents
        .flat_map(|document| gone_in(&read(&document), &document))
        .collect();
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
fn titles_of_documents_are_recognised() {
    let cited =
        "as DESIGN §4.2 says, see HOUSE; (thesis §6.2.3 and §7), see NULL's issue 12, Curl #965";
    let found: Vec<_> = titles_in(cited).collect();
    assert_eq!(found, ["DESIGN", "HOUSE", "issue"]);
}

#[test]
fn a_comment_over_several_lines_is_one_text() {
    let found = comments("a # as the thesis\n    ## §3 says\nb\n#! c", "#");
    assert_eq!(found, [" as the thesis  §3 says ", " c "]);
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
