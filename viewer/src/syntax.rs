//! Colours for one line of C or C++, so that a statement reads like source.
//!
//! A line out of its file cannot be parsed, only tokenised; that is enough to
//! tell a call from a keyword. The pieces always add up to the line.

/// What a piece of a line is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Token {
    Plain,
    Keyword,
    Call,
    Constant,
    Text,
    Comment,
}

impl Token {
    pub fn class(self) -> Option<&'static str> {
        match self {
            Token::Plain => None,
            Token::Keyword => Some("kw"),
            Token::Call => Some("call"),
            Token::Constant => Some("const"),
            Token::Text => Some("str"),
            Token::Comment => Some("com"),
        }
    }
}

const KEYWORDS: &[&str] = &[
    "auto", "bool", "break", "case", "catch", "char", "class", "const", "continue", "default",
    "delete", "do", "double", "else", "enum", "extern", "float", "for", "goto", "if", "inline",
    "int", "long", "new", "operator", "private", "public", "return", "short", "signed", "sizeof",
    "static", "struct", "switch", "template", "this", "throw", "try", "typedef", "union",
    "unsigned", "using", "void", "volatile", "while",
];
const CONSTANTS: &[&str] = &["NULL", "nullptr", "true", "false", "TRUE", "FALSE"];

/// The line in pieces, neighbours of one kind joined.
pub fn tokens(line: &str) -> Vec<(Token, &str)> {
    let mut pieces: Vec<(Token, std::ops::Range<usize>)> = Vec::new();
    let mut at = 0;
    while let Some(first) = line[at..].chars().next() {
        let rest = &line[at..];
        let (token, length) = if rest.starts_with("//") {
            (Token::Comment, rest.len())
        } else if let Some(inside) = rest.strip_prefix("/*") {
            let end = inside.find("*/").map_or(rest.len(), |e| e + 4);
            (Token::Comment, end)
        } else if first == '"' || first == '\'' {
            (Token::Text, quoted(rest, first))
        } else if first.is_ascii_digit() {
            (Token::Constant, word(rest))
        } else if is_word(first) {
            let length = word(rest);
            (name(&rest[..length], &rest[length..]), length)
        } else {
            (Token::Plain, first.len_utf8())
        };
        match pieces.last_mut() {
            Some((last, range)) if *last == token => range.end = at + length,
            _ => pieces.push((token, at..at + length)),
        }
        at += length;
    }
    pieces.into_iter().map(|(t, r)| (t, &line[r])).collect()
}

/// The pieces of a line of a whole file, where a comment may have begun in a line
/// before (`inside`); and whether one goes on after it.
pub fn tokens_in_file(line: &str, inside: bool) -> (Vec<(Token, &str)>, bool) {
    if !inside {
        let pieces = tokens(line);
        let open = pieces.last().is_some_and(|(token, text)| {
            *token == Token::Comment
                && text
                    .rfind("/*")
                    .is_some_and(|at| !text[at + 2..].contains("*/"))
                && !text.starts_with("//")
        });
        return (pieces, open);
    }
    match line.find("*/") {
        None => (vec![(Token::Comment, line)], true),
        Some(end) => {
            let (comment, rest) = line.split_at(end + 2);
            let (mut pieces, open) = tokens_in_file(rest, false);
            pieces.insert(0, (Token::Comment, comment));
            (pieces, open)
        }
    }
}

fn name(word: &str, after: &str) -> Token {
    if KEYWORDS.contains(&word) {
        Token::Keyword
    } else if CONSTANTS.contains(&word) {
        Token::Constant
    } else if after.trim_start().starts_with('(') {
        Token::Call
    } else {
        Token::Plain
    }
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

fn word(text: &str) -> usize {
    text.find(|c| !is_word(c)).unwrap_or(text.len())
}

/// The length of a literal, its quotes included; to the end if it does not end.
fn quoted(text: &str, quote: char) -> usize {
    let mut escaped = false;
    for (i, c) in text.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            c if c == quote => return i + 1,
            _ => {}
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_statement_falls_into_its_pieces() {
        assert_eq!(
            tokens("if (f(q->x, 12)) return NULL; // é"),
            [
                (Token::Keyword, "if"),
                (Token::Plain, " ("),
                (Token::Call, "f"),
                (Token::Plain, "(q->x, "),
                (Token::Constant, "12"),
                (Token::Plain, ")) "),
                (Token::Keyword, "return"),
                (Token::Plain, " "),
                (Token::Constant, "NULL"),
                (Token::Plain, "; "),
                (Token::Comment, "// é"),
            ]
        );
    }

    #[test]
    fn a_comment_goes_on_until_it_ends() {
        let mut inside = false;
        let mut kinds = Vec::new();
        for line in [
            "/* it's",
            "a while",
            "*/ int x; /* y */",
            "/* a */ /* b",
            "c */",
        ] {
            let (pieces, after) = tokens_in_file(line, inside);
            let joined: String = pieces.iter().map(|(_, t)| *t).collect();
            assert_eq!(joined, line);
            kinds.push((pieces[0].0, after));
            inside = after;
        }
        let comment = Token::Comment;
        assert_eq!(
            kinds,
            [
                (comment, true),
                (comment, true),
                (comment, false),
                (comment, true),
                (comment, false)
            ]
        );
    }

    #[test]
    fn the_pieces_add_up_to_any_line() {
        for line in [
            "",
            "\"open",
            "'\\''",
            "/* open",
            "/*a*/b",
            "/*/",
            "\"é\\",
            "漢(字)",
            "\"a\\\"b\"c",
        ] {
            let joined: String = tokens(line).iter().map(|(_, t)| *t).collect();
            assert_eq!(joined, line);
        }
    }
}
