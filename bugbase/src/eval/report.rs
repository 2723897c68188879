//! The evaluation's rows as Markdown, for the terminal and for the page alike. Pure.

use crate::eval::figures::{Figures, mean};
use crate::tables::{self, Column, figures, number, percent, table, words};
use std::fmt::Write;

/// What the published evaluation reports, as averages over its eleven failures
/// (thesis §6.2.3 and §6.2.4).
const PAPER: &str = "The published evaluation, over its eleven failures in the real programs: A_R 92%, A_O 100%, \
     A 96%; 2 to 5 failing recurrences; the best predictor named the cause in all of them.";

const COLUMNS: [Column<'_>; 17] = [
    words("bug", 17),
    figures("lines", 6),
    figures("slice", 5),
    figures("ideal", 5),
    figures("sketch", 6),
    figures("A_R", 4),
    figures("A_O", 4),
    figures("A", 4),
    figures("σ", 3),
    figures("recurrences", 11),
    figures("failing", 7),
    figures("successful", 10),
    figures("P fails", 7),
    figures("P′ fails", 8),
    figures("F", 4),
    figures("seconds", 7),
    words("verdict", 11),
];

pub fn head() -> String {
    tables::head(&COLUMNS)
}

pub fn line(row: &Figures) -> String {
    let cells = [
        row.bug.clone(),
        row.source_lines.to_string(),
        number(row.slice_statements),
        row.ideal_statements.to_string(),
        number(row.sketch_statements.map(|n| n as u64)),
        percent(row.relevance),
        percent(row.ordering),
        percent(row.accuracy),
        number(row.sigma),
        number(row.recurrences),
        number(row.failing_used),
        number(row.successful_used),
        percent(row.untracked_failure_rate),
        percent(row.tracked_failure_rate),
        row.best_f.map_or("–".into(), |f| format!("{f:.2}")),
        format!("{:.0}", row.seconds),
        row.verdict.clone(),
    ];
    tables::line(&COLUMNS, &cells)
}

/// One line of averages for each part of the corpus, and the paper's beside them.
pub fn averages(rows: &[Figures]) -> String {
    let mut text = String::new();
    type Part = (&'static str, fn(&Figures) -> bool);
    let parts: [Part; 3] = [
        ("the paper's failures", |row| row.of_the_paper),
        ("the further ones", |row| !row.of_the_paper && !row.real),
        ("the real programs", |row| row.real),
    ];
    for (name, belongs) in parts {
        let part: Vec<&Figures> = rows.iter().filter(|row| belongs(row)).collect();
        if part.is_empty() {
            continue;
        }
        let with_sketch = part.iter().filter(|row| row.accuracy.is_some()).count();
        let over = |of: fn(&Figures) -> Option<f64>| mean(part.iter().map(|row| of(row)));
        let shown = |of| percent(over(of).map(|(value, _)| value));
        let recurrences = over(|row| row.recurrences.map(|n| n as f64));
        let _ = writeln!(
            text,
            "Average over {name}: A_R {}, A_O {}, A {}; {} failing recurrences; {} of {} with a \
             sketch, {} settled, {} as expected.\n",
            shown(|row| row.relevance),
            shown(|row| row.ordering),
            shown(|row| row.accuracy),
            recurrences.map_or("–".into(), |(value, _)| format!("{value:.1}")),
            with_sketch,
            part.len(),
            part.iter().filter(|row| row.settled).count(),
            part.iter().filter(|row| row.expected).count(),
        );
    }
    text + PAPER
}

/// The figures of a bug over its repetitions: median, and smallest to largest.
pub fn spreads(rows: &[Figures]) -> String {
    let columns = [
        words("bug", 17),
        figures("times", 5),
        figures("as expected", 11),
        figures("A", 14),
        figures("recurrences", 14),
        figures("seconds", 14),
    ];
    let rows = by_bug(rows).into_iter().map(|(bug, rows)| {
        let expected = rows.iter().filter(|row| row.expected && row.settled);
        vec![
            bug.to_owned(),
            rows.len().to_string(),
            expected.count().to_string(),
            spread(&rows, "%", |row| row.accuracy.map(|a| 100.0 * a)),
            spread(&rows, "", |row| row.recurrences.map(|n| n as f64)),
            spread(&rows, "", |row| Some(row.seconds)),
        ]
    });
    table(&columns, rows)
}

/// The rows of each bug, in the order in which the bugs first come.
pub fn by_bug(rows: &[Figures]) -> Vec<(&str, Vec<&Figures>)> {
    let mut groups: Vec<(&str, Vec<&Figures>)> = Vec::new();
    for row in rows {
        match groups.iter_mut().find(|(bug, _)| *bug == row.bug) {
            Some((_, group)) => group.push(row),
            None => groups.push((&row.bug, vec![row])),
        }
    }
    groups
}

/// "61% (55–70)"
fn spread(rows: &[&Figures], unit: &str, of: fn(&Figures) -> Option<f64>) -> String {
    let mut values: Vec<f64> = rows.iter().filter_map(|row| of(row)).collect();
    values.sort_by(f64::total_cmp);
    match (values.first(), values.get(values.len() / 2), values.last()) {
        (Some(low), Some(middle), Some(high)) => {
            format!("{middle:.0}{unit} ({low:.0}–{high:.0})")
        }
        _ => "–".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(bug: &str, accuracy: Option<f64>, expected: bool) -> Figures {
        Figures {
            bug: bug.into(),
            of_the_paper: true,
            relevance: accuracy,
            ordering: accuracy,
            accuracy,
            expected,
            settled: expected,
            verdict: "as it is".into(),
            ..Figures::default()
        }
    }

    #[test]
    fn averages_leave_out_what_has_no_sketch() {
        let rows = [
            row("a", Some(1.0), true),
            row("b", Some(0.5), false),
            row("c", None, false),
        ];
        let said = averages(&rows);
        assert!(said.contains("A_R 75%, A_O 75%, A 75%"), "{said}");
        assert!(
            said.contains("2 of 3 with a sketch, 1 settled, 1 as expected"),
            "{said}"
        );
        assert!(!said.contains("further"), "{said}");
    }

    #[test]
    fn a_row_has_a_cell_for_each_column() {
        let row = line(&row("a", None, false));
        assert_eq!(row.matches('|').count(), COLUMNS.len() + 1, "{row}");
        assert_eq!(head().lines().count(), 2);
    }

    #[test]
    fn repetitions_are_summed_up_by_bug() {
        let rows = [
            row("a", Some(0.5), false),
            row("b", Some(1.0), true),
            row("a", Some(0.75), true),
            row("a", Some(1.0), true),
        ];
        let said = spreads(&rows);
        let a: Vec<&str> = said.lines().nth(2).unwrap().split('|').collect();
        let a: Vec<&str> = a.into_iter().map(str::trim).collect();
        assert_eq!(a[1..5], ["a", "3", "2", "75% (50–100)"], "{said}");
        assert_eq!(said.lines().count(), 4);
    }
}
