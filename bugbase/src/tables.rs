//! Tables in Markdown: what a terminal prints is what a page holds. Pure, but for
//! writing the rows as JSON.
//!
//! Columns have a least width, so that rows can be printed as they come and still
//! stand below each other. Figures that are to be compared by eye have a bar of `█`
//! behind them.

use anyhow::{Context, Result};
use serde::Serialize;
use std::fs;
use std::path::Path;

/// A column: its head, and how wide it is at least.
pub struct Column<'a> {
    head: &'a str,
    width: usize,
    right: bool,
}

/// A column of words.
pub const fn words(head: &str, width: usize) -> Column<'_> {
    Column {
        head,
        width,
        right: false,
    }
}

/// A column of figures.
pub const fn figures(head: &str, width: usize) -> Column<'_> {
    Column {
        head,
        width,
        right: true,
    }
}

/// The two lines above the rows.
pub fn head(columns: &[Column<'_>]) -> String {
    let heads: Vec<String> = columns.iter().map(|c| c.head.to_owned()).collect();
    let rules = columns.iter().map(|column| {
        let wide = column.width.max(column.head.chars().count()).max(3);
        match column.right {
            true => format!("{}:", "-".repeat(wide - 1)),
            false => "-".repeat(wide),
        }
    });
    let rules: Vec<String> = rules.collect();
    format!("{}\n| {} |", line(columns, &heads), rules.join(" | "))
}

/// One row.
pub fn line(columns: &[Column<'_>], cells: &[String]) -> String {
    let mut text = String::from("|");
    for (column, cell) in columns.iter().zip(cells) {
        let width = column.width.max(column.head.chars().count()).max(3);
        let cell = cell.replace('|', "\\|");
        text += &match column.right {
            true => format!(" {cell:>width$} |"),
            false => format!(" {cell:<width$} |"),
        };
    }
    text
}

/// A table whose rows are all there.
pub fn table(columns: &[Column<'_>], rows: impl IntoIterator<Item = Vec<String>>) -> String {
    let lines = rows.into_iter().map(|cells| line(columns, &cells) + "\n");
    format!("{}\n{}", head(columns), lines.collect::<String>())
}

/// Blocks of the longest bar.
const LONGEST_BAR: f64 = 12.0;

/// What a figure looks like beside the largest: something above zero, nothing below.
fn bar(value: f64, largest: f64) -> String {
    let share = (value / largest).clamp(0.0, 1.0);
    match (LONGEST_BAR * share).round() as usize {
        0 if value > 0.0 => "▏".into(),
        blocks => "█".repeat(blocks),
    }
}

/// A group of figures of one kind.
pub struct Series {
    pub name: String,
    /// One value for each row; `None` where there is none.
    pub values: Vec<Option<f64>>,
}

/// Figures and bars: a row for each name in `rows`, two columns for each series.
pub fn chart(first: &str, rows: &[String], series: &[Series]) -> String {
    let all = series.iter().flat_map(|s| s.values.iter().flatten());
    let largest = all.copied().fold(f64::MIN_POSITIVE, f64::max);
    let longest = rows.iter().map(|name| name.chars().count()).max();
    let mut columns = vec![words(first, longest.unwrap_or(0))];
    for series in series {
        columns.extend([figures(&series.name, 5), words("", LONGEST_BAR as usize)]);
    }
    let cells = rows.iter().enumerate().map(|(at, name)| {
        let mut cells = vec![name.clone()];
        for series in series {
            let value = series.values.get(at).copied().flatten();
            cells.push(value.map_or("–".into(), |value| format!("{value:.1}")));
            cells.push(value.map_or(String::new(), |value| bar(value, largest)));
        }
        cells
    });
    table(&columns, cells)
}

pub fn number(value: Option<u64>) -> String {
    value.map_or("–".into(), |value| value.to_string())
}

pub fn percent(value: Option<f64>) -> String {
    value.map_or("–".into(), |value| format!("{:.0}%", 100.0 * value))
}

/// Writes what the rows were made of.
pub fn save(file: &Path, rows: &impl Serialize) -> Result<()> {
    let writing = || format!("writing {}", file.display());
    if let Some(folder) = file.parent() {
        fs::create_dir_all(folder).with_context(writing)?;
    }
    let text = serde_json::to_string_pretty(rows)? + "\n";
    fs::write(file, text).with_context(writing)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_stand_below_their_heads() {
        let columns = [words("bug", 6), figures("σ", 4), words("verdict", 0)];
        let row = ["a|b", "16", "as it is"].map(str::to_owned).to_vec();
        let expected = "| bug    |    σ | verdict |\n\
                        | ------ | ---: | ------- |\n\
                        | a\\|b   |   16 | as it is |\n";
        assert_eq!(table(&columns, [row]), expected);
    }

    #[test]
    fn bars_are_as_long_as_their_figures() {
        let values = vec![Some(50.0), None, Some(-3.0), Some(0.1), Some(100.0)];
        let series = [Series {
            name: "%".into(),
            values,
        }];
        let rows = ["2", "4", "8", "16", "32"].map(str::to_owned);
        let text = chart("σ", &rows, &series);
        let blocks: Vec<usize> = text.lines().map(|l| l.matches('█').count()).collect();
        assert_eq!(blocks, [0, 0, 6, 0, 0, 0, 12]);
        assert_eq!(text.matches('▏').count(), 1);
        assert!(
            text.contains("|  50.0 |") && text.contains("|     – |"),
            "{text}"
        );
    }
}
