//! A slice as text: excerpts of the source, nearest statements first, each with
//! the reason why it is there.
//!
//! Statements stand under their distance in whole steps. Reasons name the statement that wanted this one, so that a reader can go
//! from any line to the failure. Without source text (it was not at hand when
//! the build was registered) the rows stay, without excerpts.

use sketch_model::{Gap, Slice, SliceEntry};
use slicer::Alias;
use std::fmt::Write;
use viewer::printable;

/// What stands above the slice.
pub struct Heading<'a> {
    pub at: &'a str,
    pub program: &'a str,
    pub alias: Alias,
    /// Statements before `--sigma` cut the slice.
    pub whole: usize,
}

/// Source text by file and line.
pub type SourceLine<'a> = &'a dyn Fn(&str, u32) -> Option<String>;

pub fn text(slice: &Slice, heading: &Heading<'_>, context: u32, source: SourceLine<'_>) -> String {
    let mut out = String::new();
    let shown = slice.entries.len();
    let cut = slice
        .gaps
        .iter()
        .any(|gap| matches!(gap, Gap::SliceCut { .. }));
    let count = match heading.whole {
        whole if cut && whole == shown => format!("the nearest {shown} statements"),
        whole if cut => format!("the nearest {shown} of more than {whole} statements"),
        1 => "1 statement".to_owned(),
        whole if whole == shown => format!("{whole} statements"),
        whole => format!("the nearest {shown} of {whole} statements"),
    };
    let (at, program) = (printable(heading.at), printable(heading.program));
    let alias = heading.alias;
    // Writing to a string cannot fail.
    let _ = writeln!(out, "Slice of {program} from {at}: {count} (alias {alias})");
    let mut last = None;
    for entry in &slice.entries {
        let whole_steps = entry.distance / SliceEntry::STEP;
        if last != Some(whole_steps) {
            let _ = writeln!(out, "\n── {} ──", steps(whole_steps));
            last = Some(whole_steps);
        }
        add_entry(&mut out, slice, entry, context, source);
    }
    if !slice.gaps.is_empty() {
        out.push('\n');
    }
    for gap in &slice.gaps {
        let _ = writeln!(out, "note: {gap}");
    }
    out
}

fn steps(distance: u32) -> String {
    match distance {
        0 => "the failing statement".to_owned(),
        1 => "1 step before it".to_owned(),
        more => format!("{more} steps before it"),
    }
}

fn add_entry(
    out: &mut String,
    slice: &Slice,
    entry: &SliceEntry,
    context: u32,
    source: SourceLine<'_>,
) {
    let statement = &entry.statement;
    let who = match entry.roles.as_slice() {
        [] => String::new(),
        [one] => format!(", thread {one}"),
        many => format!(", threads {}", many.join(", ")),
    };
    let _ = writeln!(
        out,
        "\n{} in {}{}",
        printable(&statement.location.to_string()),
        printable(&statement.function),
        printable(&who)
    );
    if let Some(why) = &entry.why {
        let parent = slice.entry(why.parent).map(|p| &p.statement.location);
        let parent = parent.map_or_else(
            || "a statement that is not listed".to_owned(),
            |p| p.to_string(),
        );
        let _ = writeln!(out, "    {} {}", why.kind, printable(&parent));
    }
    let line = statement.location.line;
    for number in line.saturating_sub(context)..=line.saturating_add(context) {
        if let Some(text) = source(&statement.location.file, number) {
            let mark = if number == line { '>' } else { ' ' };
            let text = printable(text.trim_end());
            let row = format!("  {mark} {number:>5} │ {text}");
            let _ = writeln!(out, "{}", row.trim_end());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sketch_model::{BuildId, DependenceKind, SourceLocation, Statement, StatementId, Why};

    fn entry(id: u32, line: u32, distance: u32, why: Option<Why>) -> SliceEntry {
        SliceEntry {
            statement: Statement {
                id: StatementId(id),
                function: "consumer".into(),
                location: SourceLocation {
                    file: "/src/q.c".into(),
                    line,
                },
                text: String::new(),
            },
            distance,
            why,
            roles: vec!["consumer".into(), "main".into()],
            points: Vec::new(),
        }
    }

    fn slice() -> Slice {
        let why = Why {
            kind: DependenceKind::Memory,
            parent: StatementId(1),
        };
        Slice {
            schema: Slice::SCHEMA,
            build: BuildId("ab".into()),
            entries: vec![entry(1, 2, 0, None), entry(2, 9, 13, Some(why))],
            gaps: vec![Gap::Words("something was not followed".into())],
        }
    }

    #[test]
    fn a_slice_reads_from_the_failure_back() {
        let lines = ["{", "\tunlock(q->mut);", "}"];
        let source = |_: &str, line: u32| {
            let text = lines.get(line as usize - 1);
            text.map(|t| (*t).to_owned())
        };
        let heading = Heading {
            at: "q.c:2",
            program: "queue",
            alias: Alias::Field,
            whole: 7,
        };
        let wanted = "\
Slice of queue from q.c:2: the nearest 2 of 7 statements (alias field)

── the failing statement ──

q.c:2 in consumer, threads consumer, main
        1 │ {
  >     2 │     unlock(q->mut);
        3 │ }

── 1 step before it ──

q.c:9 in consumer, threads consumer, main
    stores what is loaded by q.c:2

note: something was not followed
";
        assert_eq!(text(&slice(), &heading, 1, &source), wanted);
    }
}
