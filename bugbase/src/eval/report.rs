//! The evaluation's rows as lines for a terminal. Pure. The page is `page`'s.

use crate::eval::figures::{Figures, mean};
use std::fmt::Write;

/// What the published evaluation reports, as averages over its eleven failures
/// (thesis §6.2.3 and §6.2.4).
const PAPER: &str = "The published evaluation, over its eleven failures in the real programs: A_R 92%, A_O 100%, \
     A 96%; 2 to 5 failing recurrences; the best predictor named the cause in all of them.";

pub fn head() -> String {
    format!(
        "{:<18} {:>5} {:>5} {:>5} {:>6} {:>4} {:>4} {:>4} {:>3} {:>6} {:>7} {:>7} {:>5} {:>5} {:>5} {:>6}  verdict",
        "bug",
        "lines",
        "slice",
        "ideal",
        "sketch",
        "A_R",
        "A_O",
        "A",
        "σ",
        "recur.",
        "failing",
        "success",
        "P",
        "P′",
        "F",
        "s"
    )
}

/// What both tables say of a bug, column by column.
pub fn cells(row: &Figures) -> [String; 17] {
    [
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
    ]
}

pub fn line(row: &Figures) -> String {
    const WIDTHS: [usize; 15] = [5, 5, 5, 6, 4, 4, 4, 3, 6, 7, 7, 5, 5, 5, 6];
    let [bug, columns @ .., verdict] = cells(row);
    let columns = columns.iter().zip(WIDTHS);
    let columns: String = columns
        .map(|(cell, width)| format!(" {cell:>width$}"))
        .collect();
    format!("{bug:<18}{columns}  {verdict}")
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
             sketch, {} settled, {} as expected.",
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
    let mut text = format!(
        "{:<18} {:>5} {:>8} {:>20} {:>20} {:>20}\n",
        "bug", "times", "expected", "A", "recurrences", "seconds"
    );
    for (bug, rows) in by_bug(rows) {
        let expected = rows
            .iter()
            .filter(|row| row.expected && row.settled)
            .count();
        let _ = writeln!(
            text,
            "{:<18} {:>5} {:>8} {:>20} {:>20} {:>20}",
            bug,
            rows.len(),
            expected,
            spread(&rows, "%", |row| row.accuracy.map(|a| 100.0 * a)),
            spread(&rows, "", |row| row.recurrences.map(|n| n as f64)),
            spread(&rows, " s", |row| Some(row.seconds)),
        );
    }
    text
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
pub fn spread(rows: &[&Figures], unit: &str, of: fn(&Figures) -> Option<f64>) -> String {
    let mut values: Vec<f64> = rows.iter().filter_map(|row| of(row)).collect();
    values.sort_by(f64::total_cmp);
    match (values.first(), values.get(values.len() / 2), values.last()) {
        (Some(low), Some(middle), Some(high)) => {
            format!("{middle:.0}{unit} ({low:.0}–{high:.0})")
        }
        _ => "–".into(),
    }
}

pub fn number(value: Option<u64>) -> String {
    value.map_or("–".into(), |value| value.to_string())
}

pub fn percent(value: Option<f64>) -> String {
    value.map_or("–".into(), |value| format!("{:.0}%", 100.0 * value))
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
    fn repetitions_are_summed_up_by_bug() {
        let rows = [
            row("a", Some(0.5), false),
            row("b", Some(1.0), true),
            row("a", Some(0.75), true),
            row("a", Some(1.0), true),
        ];
        let said = spreads(&rows);
        let a = said.lines().nth(1).unwrap();
        assert!(a.starts_with("a ") && a.contains("75% (50–100)"), "{said}");
        assert!(a.split_whitespace().take(3).eq(["a", "3", "2"]), "{said}");
        assert_eq!(said.lines().count(), 3);
    }
}
