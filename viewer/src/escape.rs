//! Makes words that came from a program harmless and visible.
//!
//! A value may hold terminal escapes, marks that reverse the direction of text
//! or a megabyte of anything. [`printable`] shows such characters by their number,
//! so that the reader sees what is there and nothing acts on it; what is too long
//! is cut, and the cut says how much it left out.
//!
//! HTML's own characters are not handled here: maud escapes them.

use unicode_width::UnicodeWidthChar;

pub use sketch_model::{printable, printable_json, printable_lines};

/// Generous for a source line, small for a page.
pub const STATEMENT_LIMIT: usize = 400;
/// For names, values and paths.
pub const NAME_LIMIT: usize = 160;
/// For sentences: summary, predictor, gap.
pub const SENTENCE_LIMIT: usize = 1_200;

/// `text` with every character visible, cut after `limit` characters.
pub fn visible(text: &str, limit: usize) -> String {
    let Some((end, _)) = text.char_indices().nth(limit) else {
        return printable(text);
    };
    let left_out = text[end..].chars().count();
    let shown = printable(&text[..end]);
    format!("{shown}… ({left_out} more characters)")
}

/// Terminal cells that a character takes.
pub fn cells(c: char) -> usize {
    c.width().unwrap_or(0)
}

/// Terminal cells that a text takes.
pub fn width(text: &str) -> usize {
    text.chars().map(cells).sum()
}

/// `text` if it fits `room` cells, otherwise its beginning and `…`.
pub fn fit(text: &str, room: usize) -> String {
    if width(text) <= room {
        return text.to_owned();
    }
    let mut kept = String::new();
    let mut used = 0;
    for c in text.chars() {
        if used + cells(c) + 1 > room {
            break;
        }
        used += cells(c);
        kept.push(c);
    }
    if room > 0 {
        kept.push('…');
    }
    kept
}

/// `text` broken between words into lines of at most `room` cells; a word that is
/// longer than a line is broken inside.
pub fn wrap(text: &str, room: usize) -> Vec<String> {
    let room = room.max(2);
    let mut lines = Vec::new();
    let mut line = String::new();
    let mut used = 0;
    for word in text.split(' ') {
        let word_width = width(word);
        if used > 0 && used + 1 + word_width > room {
            lines.push(std::mem::take(&mut line));
            used = 0;
        } else if used > 0 {
            line.push(' ');
            used += 1;
        }
        for c in word.chars() {
            if used + cells(c) > room {
                lines.push(std::mem::take(&mut line));
                used = 0;
            }
            line.push(c);
            used += cells(c);
        }
    }
    lines.push(line);
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_acts_on_a_terminal_is_shown_by_its_number() {
        assert_eq!(
            visible("a\u{1b}[31m\u{202e}\tb\n", 100),
            "a\\u{1b}[31m\\u{202e}    b\\n"
        );
    }

    #[test]
    fn a_cut_says_how_much_it_left_out() {
        assert_eq!(
            visible(&"x".repeat(1_000_003), 3),
            "xxx… (1000000 more characters)"
        );
    }

    #[test]
    fn wide_characters_count_twice() {
        assert_eq!(fit("漢字漢字", 5), "漢字…");
        assert_eq!(fit("漢字", 4), "漢字");
    }

    #[test]
    fn wrapping_loses_no_word_and_keeps_to_the_room() {
        let text = "in 9 of 9 failing runs aVeryLongIdentifierIndeed ran before 漢字漢字漢字";
        let lines = wrap(text, 10);
        assert!(lines.iter().all(|l| width(l) <= 10), "{lines:?}");
        let squeezed = |s: &str| s.replace(' ', "");
        assert_eq!(squeezed(&lines.concat()), squeezed(text));
    }
}
