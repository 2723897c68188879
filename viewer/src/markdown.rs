//! The sketch for a ticket: the answer, the drawing, the predictors.
//!
//! Ticket systems render GitHub's dialect and turn many characters into links,
//! mentions or markup, so whatever is not code is escaped character by character.

use crate::escape::{self, SENTENCE_LIMIT};
use crate::facts;
use crate::headline;
use crate::numbers::{self, interval, probability, share};
use crate::{prose, text};
use sketch_model::FailureSketch;

const DRAWING_WIDTH: usize = 96;

/// The sketch as Markdown.
pub fn markdown(sketch: &FailureSketch) -> String {
    let mut out = format!("## {}\n\n", inline(&sketch.title));
    if let Some(what) = headline::what_failed(sketch) {
        out.push_str(&format!("{}\n\n", inline(&what)));
    }
    if let Some(said) = &sketch.said {
        out.push_str(&format!("It said: {}\n\n", inline(said)));
    }
    out.push_str(&format!("**{}**\n\n", inline(&sketch.summary)));
    out.push_str(&format!(
        "{} · campaign {} · sketch {} · {}\n\n",
        inline(&sketch.program),
        sketch.campaign,
        sketch.version,
        facts::state(sketch)
    ));
    let drawing = text::drawing(sketch, DRAWING_WIDTH);
    let fence = "`".repeat(longest_run_of_backticks(&drawing).max(2) + 1);
    out.push_str(&format!("{fence}text\n{drawing}\n{fence}\n\n"));

    if !sketch.predictors.is_empty() {
        out.push_str(
            "| | class | difference | precision | recall | F | failing | successful | p |\n",
        );
        out.push_str("|---|---|---|---|---|---|---|---|---|\n");
        for p in &sketch.predictors {
            let s = &p.score;
            out.push_str(&format!(
                "| {} | {} | {} | {} ({}) | {} ({}) | {} | {} | {} | {} |\n",
                if p.best { "★" } else { "" },
                p.class,
                inline(&p.sentence),
                share(s.precision),
                interval(s.precision_interval),
                share(s.recall),
                interval(s.recall_interval),
                share(s.f_measure),
                numbers::failing_support(s),
                numbers::successful_support(s),
                probability(s.corrected_p),
            ));
        }
        out.push('\n');
    }
    for (label, fact) in prose::provenance(sketch) {
        out.push_str(&format!("- {label}: {}\n", inline(&fact)));
    }
    out.push_str("\nWhat is not known:\n\n");
    for gap in prose::gaps(sketch) {
        out.push_str(&format!("- {}\n", inline(&gap)));
    }
    out
}

/// Text within a line. What stands between backticks stays code.
fn inline(text: &str) -> String {
    let text = escape::visible(text, SENTENCE_LIMIT);
    let parts: Vec<&str> = text.split('`').collect();
    if parts.len().is_multiple_of(2) {
        return literal(&text);
    }
    let mut out = String::new();
    for (i, part) in parts.iter().enumerate() {
        match i % 2 {
            0 => out.push_str(&literal(part)),
            _ if part.trim().is_empty() => out.push_str("\\`\\`"),
            _ => out.push_str(&format!("`{}`", part.replace('|', "\\|"))),
        }
    }
    out
}

fn literal(text: &str) -> String {
    let mut out = String::new();
    for c in text.chars() {
        match c {
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            // A mention would call people; a space of no width breaks it.
            '@' => out.push_str("@&#8203;"),
            '\\' | '`' | '*' | '_' | '[' | ']' | '|' | '#' | '~' | '!' => {
                out.push('\\');
                out.push(c);
            }
            c => out.push(c),
        }
    }
    out
}

fn longest_run_of_backticks(text: &str) -> usize {
    text.split(|c| c != '`').map(str::len).max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markup_from_a_program_stays_text() {
        assert_eq!(
            inline("<b>|[x](http://y) @all `a|b` *"),
            "&lt;b&gt;\\|\\[x\\](http://y) @&#8203;all `a\\|b` \\*"
        );
        assert_eq!(inline("one ` alone <"), "one \\` alone &lt;");
    }
}
