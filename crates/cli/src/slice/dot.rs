//! A slice as a graph for Graphviz: a box a statement, an arrow to what wanted it.
//!
//! Arrows go the way that causes do, from a statement to the one that depends on
//! it, with the reason as label. Only the shortest way of each statement is in a
//! slice, so the graph is a tree. Source text may hold anything: everything that
//! the language could take for its own is escaped.

use sketch_model::Slice;
use std::fmt::Write;

pub fn dot(slice: &Slice) -> String {
    let mut out = String::from(
        "digraph slice {\n  rankdir=BT;\n  node [shape=box, fontname=\"monospace\"];\n  \
         edge [fontname=\"sans-serif\", fontsize=10];\n",
    );
    for entry in &slice.entries {
        let statement = &entry.statement;
        let roles = entry.roles.join(", ");
        let rows = [
            format!("{} in {}", statement.location, statement.function),
            statement.text.clone(),
            if roles.is_empty() {
                String::new()
            } else {
                format!("thread: {roles}")
            },
        ];
        let rows = rows.iter().filter(|row| !row.is_empty());
        // \l ends a line that is aligned to the left.
        let label: String = rows.map(|row| escaped(row) + "\\l").collect();
        let style = match entry.why {
            None => ", style=bold, color=red",
            Some(_) => "",
        };
        // Writing to a string cannot fail.
        let _ = writeln!(out, "  n{} [label=\"{label}\"{style}];", statement.id.0);
    }
    for entry in &slice.entries {
        let parent = entry
            .why
            .as_ref()
            .filter(|why| slice.entry(why.parent).is_some());
        if let Some(why) = parent {
            let label = escaped(&why.kind.to_string());
            let (from, to) = (entry.statement.id.0, why.parent.0);
            let _ = writeln!(out, "  n{from} -> n{to} [label=\"{label}\"];");
        }
    }
    out.push_str("}\n");
    out
}

/// Text for a quoted string. A backslash begins an escape, a quote ends the
/// string, and control characters are shown by their number.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in viewer::printable(text).chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use sketch_model::{
        BuildId, DependenceKind, SliceEntry, SourceLocation, Statement, StatementId, Why,
    };

    const NASTY: [&str; 6] = [
        r#"printf("\"%s\"\n", "a\\b");"#,
        "x = y; // }; -> [ \\",
        "\\",
        "\"",
        "tab\there\u{7}\r\n]",
        "ünïcode → <b>&amp;</b> {|}",
    ];

    fn slice() -> Slice {
        let entries = NASTY.iter().zip(0..).map(|(text, id)| SliceEntry {
            statement: Statement {
                id: StatementId(id),
                function: "operator\"\"_x".into(),
                location: SourceLocation {
                    file: "/src/a\"b\\.c".into(),
                    line: id + 1,
                },
                text: (*text).into(),
            },
            distance: id,
            why: (id > 0).then_some(Why {
                kind: DependenceKind::Data,
                parent: StatementId(id / 2),
            }),
            roles: vec!["m\"ain".into()],
            points: Vec::new(),
        });
        Slice {
            schema: Slice::SCHEMA,
            build: BuildId("ab".into()),
            entries: entries.collect(),
            gaps: Vec::new(),
        }
    }

    /// The language's tokens, as its grammar defines them: names, punctuation,
    /// and quoted strings in which only `\"` is special.
    fn tokens(text: &str) -> Vec<String> {
        let mut found = Vec::new();
        let mut rest = text.chars().peekable();
        while let Some(c) = rest.next() {
            if c.is_whitespace() {
                continue;
            }
            let mut token = c.to_string();
            match c {
                '"' => loop {
                    let c = rest.next().expect("a string ends");
                    token.push(c);
                    match c {
                        '\\' => token.extend(rest.next()),
                        '"' => break,
                        _ => {}
                    }
                },
                '-' => token.extend(rest.next_if_eq(&'>')),
                c if c.is_alphanumeric() => {
                    while let Some(c) = rest.next_if(|c| c.is_alphanumeric() || *c == '_') {
                        token.push(c);
                    }
                }
                _ => {}
            }
            found.push(token);
        }
        found
    }

    /// Statements of a graph: what stands between semicolons, attributes apart.
    #[test]
    fn whatever_the_source_says_the_graph_parses() {
        let tokens = tokens(&dot(&slice()));
        assert_eq!(tokens[..3], ["digraph", "slice", "{"]);
        assert_eq!(tokens.last().map(String::as_str), Some("}"));
        let body = &tokens[3..tokens.len() - 1];
        let (mut nodes, mut arrows) = (0, 0);
        for statement in body.split(|t| t == ";").filter(|s| !s.is_empty()) {
            let plain = |t: &String| t.chars().all(char::is_alphanumeric);
            let from = &statement[0];
            assert!(plain(from), "{statement:?}");
            let after = match statement.get(1).map(String::as_str) {
                Some("->") => {
                    arrows += 1;
                    assert!(plain(&statement[2]));
                    &statement[3..]
                }
                Some("=") => {
                    assert_eq!(statement.len(), 3);
                    continue;
                }
                _ => {
                    nodes += usize::from(from.starts_with('n') && from != "node");
                    &statement[1..]
                }
            };
            assert_eq!(after.first().map(String::as_str), Some("["));
            assert_eq!(after.last().map(String::as_str), Some("]"));
            for attribute in after[1..after.len() - 1].split(|t| t == ",") {
                assert_eq!(attribute.len(), 3, "{attribute:?}");
                assert!(plain(&attribute[0]) && attribute[1] == "=");
            }
        }
        assert_eq!((nodes, arrows), (NASTY.len(), NASTY.len() - 1));
    }

    #[test]
    fn quotes_and_backslashes_are_escaped_and_control_characters_are_only_seen() {
        assert_eq!(escaped(r#"a"b\c"#), r#"a\"b\\c"#);
        assert_eq!(escaped("a\tb\u{7}\nc"), r"a    b\\u{7}\\nc");
        assert_eq!(escaped("ü → {}"), "ü → {}");
    }
}
