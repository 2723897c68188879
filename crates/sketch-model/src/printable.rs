//! Makes foreign words harmless where they are printed.
//!
//! Names in builds, records and servers' answers may hold anything: sequences that
//! rename a terminal's window or overwrite the line before, marks that reverse the
//! direction of text. Such characters are shown by their number, so that the reader
//! sees what is there and nothing acts on it. Here, because everybody who prints
//! such words needs the same rule: the command, the agent and the viewer.
//!
//! Absent: limits of length (`viewer/src/escape.rs`), and HTML's own characters.

/// `text` as one line in which no character acts: neither on a terminal nor on the
/// characters around it.
pub fn printable(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\t' => shown.push_str("    "),
            '\n' => shown.push_str("\\n"),
            '\r' => shown.push_str("\\r"),
            c if acts(c) => shown.extend(c.escape_unicode()),
            c => shown.push(c),
        }
    }
    shown
}

/// The same for a text of several lines, which stay.
pub fn printable_lines(text: &str) -> String {
    let lines: Vec<String> = text.split('\n').map(printable).collect();
    lines.join("\n")
}

/// JSON of the same value in which no character acts; JSON has escapes of its own.
pub fn printable_json(json: &str) -> String {
    let mut shown = String::with_capacity(json.len());
    for c in json.chars() {
        // Ends of lines stand between values; within strings they are escaped already.
        if c == '\n' || !acts(c) {
            shown.push(c);
            continue;
        }
        for unit in c.encode_utf16(&mut [0; 2]) {
            shown.push_str(&format!("\\u{unit:04x}"));
        }
    }
    shown
}

/// Control characters (C0, DEL, C1), and those without a shape of their own that
/// change how others look: marks of direction, joiners, invisible separators, tags.
fn acts(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}'
            | '\u{e0000}'..='\u{e007f}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_acts_on_a_terminal_is_shown_by_its_number() {
        for (name, shown) in [
            ("\x1b]0;owned\x07", "\\u{1b}]0;owned\\u{7}"),
            ("\x1b[2J\u{9b}31m", "\\u{1b}[2J\\u{9b}31m"),
            ("safe\rrm -rf", "safe\\rrm -rf"),
            (
                "a\u{202e}gpj.exe\u{2066}\u{2069}",
                "a\\u{202e}gpj.exe\\u{2066}\\u{2069}",
            ),
            ("a\tb\nc\0\x7f", "a    b\\nc\\u{0}\\u{7f}"),
            ("größe_漢字 → ✗ 👍", "größe_漢字 → ✗ 👍"),
        ] {
            assert_eq!(printable(name), shown);
            assert_eq!(printable(&printable(name)), shown, "once is enough");
        }
    }

    #[test]
    fn every_control_character_and_override_is_neutralised() {
        let codes = (0..0x20).chain(0x7f..0xa0).chain(0x202a..=0x202e);
        for code in codes.chain(0x2066..=0x2069) {
            let c = char::from_u32(code).unwrap();
            assert!(!printable(&c.to_string()).contains(c), "{code:x}");
            let kept = printable_lines(&c.to_string()).contains(c);
            assert_eq!(kept, c == '\n', "{code:x}");
        }
    }

    #[test]
    fn lines_stay_lines() {
        assert_eq!(printable_lines("a\r\n\tb\n\x1bc"), "a\\r\n    b\n\\u{1b}c");
    }

    #[test]
    fn json_keeps_its_value() {
        let value = serde_json::json!({ "a\u{9b}": ["\u{202e}\x1b\n", "\u{e0001}", "ü"] });
        let text = serde_json::to_string_pretty(&value).unwrap();
        let shown = printable_json(&text);
        assert_ne!(text, shown);
        assert!(!shown.chars().any(|c| c != '\n' && acts(c)), "{shown}");
        assert_eq!(
            serde_json::from_str::<serde_json::Value>(&shown).unwrap(),
            value
        );
    }
}
