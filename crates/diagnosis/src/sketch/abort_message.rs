//! What an aborting program said, in one line for the reader of a sketch.
//!
//! Pure. The exception's type arrives as the C++ ABI spells it, because agents
//! carry no demangler; here it becomes what the program's authors wrote.

use sketch_model::{LastWords, ThrownException};

/// One line; `None` if there was no message, or it was withheld.
pub fn in_one_line(said: &LastWords) -> Option<String> {
    let message = said.message.as_deref().map(joined);
    let exception = said.exception.as_ref().map(exception);
    let parts: Vec<String> = message.into_iter().chain(exception).collect();
    let line = parts.join("; ");
    (!line.is_empty()).then_some(line)
}

fn exception(thrown: &ThrownException) -> String {
    let name = readable(&thrown.type_name);
    match &thrown.text {
        Some(text) => format!("exception {name}: {}", joined(text)),
        None => format!("exception {name}"),
    }
}

/// Messages end in line breaks, and some have several.
fn joined(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The type by its name in C++, or as it came.
fn readable(type_name: &str) -> String {
    let symbol = format!("_ZTS{type_name}");
    let parsed = cpp_demangle::Symbol::new(&symbol).ok();
    let words = parsed.and_then(|symbol| symbol.demangle().ok());
    words
        .as_deref()
        .and_then(|words| words.strip_prefix("typeinfo name for "))
        .unwrap_or(type_name)
        .to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn thrown(type_name: &str, text: Option<&str>) -> LastWords {
        LastWords {
            message: None,
            exception: Some(ThrownException {
                type_name: type_name.into(),
                text: text.map(Into::into),
            }),
        }
    }

    #[test]
    fn exceptions_are_told_by_their_names_in_cpp() {
        let lines = [
            thrown("St13runtime_error", Some("no\nroom")),
            thrown("N3app5ErrorE", None),
            thrown("i", None),
            thrown("not a type", None),
        ]
        .map(|said| in_one_line(&said).unwrap_or_default());
        assert_eq!(
            lines,
            [
                "exception std::runtime_error: no room",
                "exception app::Error",
                "exception int",
                "exception not a type",
            ]
        );
    }

    #[test]
    fn a_message_is_one_line_and_silence_is_none() {
        let assertion = LastWords {
            message: Some("a: a.c:3: main: Assertion `x' failed.\n".into()),
            exception: None,
        };
        assert_eq!(
            in_one_line(&assertion).as_deref(),
            Some("a: a.c:3: main: Assertion `x' failed.")
        );
        assert_eq!(in_one_line(&LastWords::default()), None);
    }
}
