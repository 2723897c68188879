//! A line of terminal text: pieces with a tone, measured in cells.
//!
//! Tones become colours only at the very end, so that with and without colour
//! the layout is the same.

use crate::escape;

/// What a piece of text is, not which colour it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tone {
    Plain,
    Strong,
    Dim,
    Failing,
    Cause,
    Value,
    Good,
}

impl Tone {
    /// The terminal's own 16 colours: they fit the reader's light or dark theme.
    fn sequence(self) -> &'static str {
        match self {
            Tone::Plain => "",
            Tone::Strong => "\x1b[1m",
            Tone::Dim => "\x1b[2m",
            Tone::Failing => "\x1b[1;31m",
            Tone::Cause => "\x1b[1;33m",
            Tone::Value => "\x1b[36m",
            Tone::Good => "\x1b[32m",
        }
    }
}

/// A line under construction.
#[derive(Clone, Debug, Default)]
pub struct Line {
    pieces: Vec<(Tone, String)>,
}

impl Line {
    pub fn new() -> Self {
        Line::default()
    }

    pub fn of(tone: Tone, text: impl AsRef<str>) -> Self {
        Line::new().with(tone, text)
    }

    pub fn with(mut self, tone: Tone, text: impl AsRef<str>) -> Self {
        self.push(tone, text);
        self
    }

    /// All text of a terminal passes here, so here nothing in it is left to act.
    pub fn push(&mut self, tone: Tone, text: impl AsRef<str>) {
        self.pieces.push((tone, escape::printable(text.as_ref())));
    }

    pub fn append(&mut self, other: Line) {
        self.pieces.extend(other.pieces);
    }

    pub fn width(&self) -> usize {
        self.pieces.iter().map(|(_, t)| escape::width(t)).sum()
    }

    /// Cut with `…` if it is wider than `room`.
    pub fn fitted(self, room: usize) -> Line {
        if self.width() <= room {
            return self;
        }
        let mut fitted = Line::new();
        let mut used = 0;
        for (tone, text) in self.pieces {
            let width = escape::width(&text);
            if used + width < room {
                used += width;
                fitted.push(tone, text);
            } else {
                // `fit` adds the mark only if it cuts; a piece that fills the
                // room exactly must still say that more follows.
                fitted.push(tone, escape::fit(&format!("{text} "), room - used));
                break;
            }
        }
        fitted
    }

    /// Filled up with spaces to `room`.
    pub fn padded(mut self, room: usize) -> Line {
        let missing = room.saturating_sub(self.width());
        self.push(Tone::Plain, " ".repeat(missing));
        self
    }

    /// The line's text, without space at its end.
    pub fn render(&self, color: bool) -> String {
        let plain: String = self.pieces.iter().map(|(_, t)| t.as_str()).collect();
        if !color {
            return plain.trim_end().to_owned();
        }
        let mut left = plain.trim_end().len();
        let mut out = String::new();
        for (tone, text) in &self.pieces {
            let kept = &text[..text.len().min(left)];
            left -= kept.len();
            if kept.is_empty() {
                continue;
            }
            match tone.sequence() {
                _ if kept.trim().is_empty() => out.push_str(kept),
                "" => out.push_str(kept),
                sequence => {
                    out.push_str(sequence);
                    out.push_str(kept);
                    out.push_str("\x1b[0m");
                }
            }
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cut_is_marked_wherever_it_falls() {
        let line = Line::of(Tone::Plain, "abc").with(Tone::Dim, "def");
        assert_eq!(line.clone().fitted(6).render(false), "abcdef");
        assert_eq!(line.clone().fitted(5).render(false), "abcd…");
        assert_eq!(line.clone().fitted(3).render(false), "ab…");
        assert_eq!(line.fitted(1).render(false), "…");
    }

    #[test]
    fn only_colours_of_ours_reach_the_terminal() {
        let line = Line::of(Tone::Strong, "\x1b]0;owned\x07").with(Tone::Plain, "\r\u{202e}x");
        assert_eq!(
            line.render(true),
            "\x1b[1m\\u{1b}]0;owned\\u{7}\x1b[0m\\r\\u{202e}x"
        );
    }

    #[test]
    fn colour_changes_no_letter() {
        let line = Line::of(Tone::Failing, "✗").with(Tone::Plain, " x  ");
        assert_eq!(line.render(true), "\x1b[1;31m✗\x1b[0m x");
        assert_eq!(line.render(false), "✗ x");
    }
}
