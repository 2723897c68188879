//! What a branch decided, in the words of its statement.
//!
//! "The condition `n < 3` was true" says more than the number of an outcome, but it
//! must not say what is not so. What is known is the text of one line, a column, and an
//! outcome: of a two-way branch 0 where what it tests is not zero, of a `switch` the
//! value itself. So a condition is named only where the line has just one; only its
//! column is named where `&&`, `||` or `?:` make several; and neither where clang may
//! have exchanged the two ways (it does so for an `if` with a `!`, not for a loop) or a
//! macro may hide such an expression. Macros are taken to be upper case.

/// What an outcome says of a statement's branch.
#[derive(Debug, PartialEq, Eq)]
pub enum Decision<'a> {
    /// The one condition of the statement.
    Condition { tested: &'a str, holds: bool },
    /// One of its conditions: the one at the branch's column.
    OneOfSeveral { holds: bool },
    /// The value that a `switch` is about.
    Switch { value: i32 },
    /// The text does not tell.
    Unclear,
}

/// Keywords (and a macro) whose branch has outcome 0 where what is in brackets holds.
const TESTS: &[&str] = &["if", "while", "for", "assert"];

pub fn decision(statement: &str, outcome: u32) -> Decision<'_> {
    let words = || words(statement);
    let negated = statement.replace("!=", "").contains('!') || words().any(|word| word == "not");
    if negated || statement.is_empty() || has_macro_call(statement) {
        return Decision::Unclear;
    }
    if words().any(|word| word == "switch") {
        return match statement.starts_with("switch") && !has_operator(statement) {
            true => Decision::Switch {
                value: outcome as i32,
            },
            false => Decision::Unclear,
        };
    }
    let holds = match outcome {
        0 => true,
        1 => false,
        _ => return Decision::Unclear,
    };
    match only_condition(statement) {
        Some(tested) => Decision::Condition { tested, holds },
        None => Decision::OneOfSeveral { holds },
    }
}

/// The condition of a statement that has no other.
fn only_condition(statement: &str) -> Option<&str> {
    let statement = statement.trim_start_matches(['}', ' ', '\t']);
    let statement = statement.strip_prefix("else ").unwrap_or(statement);
    let (keyword, rest) = TESTS.iter().find_map(|keyword| {
        let rest = statement.strip_prefix(keyword)?.trim_start();
        Some((*keyword, rest.strip_prefix('(')?))
    })?;
    let (inside, after) = rest.split_at(closing(rest)?);
    let parts: Vec<&str> = inside.split(';').collect();
    let tested = match (keyword, parts.as_slice()) {
        ("for", [_, tested, _]) => tested.trim(),
        ("if" | "while" | "assert", [tested]) => tested.trim(),
        _ => return None,
    };
    let others = parts.iter().chain([&after]).any(|part| may_branch(part));
    (!tested.is_empty() && !tested.contains('{') && !others).then_some(tested)
}

/// Where the bracket closes that was opened before `text`.
fn closing(text: &str) -> Option<usize> {
    let mut open = 1usize;
    for (at, c) in text.char_indices() {
        match c {
            '(' => open += 1,
            ')' => open -= 1,
            // Brackets inside of quotes do not count; such lines are left alone.
            '"' | '\'' => return None,
            _ => {}
        }
        if open == 0 {
            return Some(at);
        }
    }
    None
}

/// Whether there may be a branch in this part of a statement. A call is one that may:
/// it may be a macro.
fn may_branch(text: &str) -> bool {
    let keyword = words(text).any(|word| TESTS.contains(&word));
    keyword || has_operator(text) || called(text).next().is_some()
}

fn has_operator(text: &str) -> bool {
    ["&&", "||", "?"].iter().any(|sign| text.contains(sign))
}

/// The names in front of opening brackets, other than keywords.
fn called(text: &str) -> impl Iterator<Item = &str> {
    let before = text.match_indices('(').map(|(at, _)| text[..at].trim_end());
    let names = before.filter_map(|before| {
        let is_name = |c: char| c.is_alphanumeric() || c == '_';
        let start = before.trim_end_matches(is_name).len();
        Some(&before[start..]).filter(|name| !name.is_empty())
    });
    names.filter(|name| !TESTS.contains(name) && !matches!(*name, "switch" | "return"))
}

fn has_macro_call(text: &str) -> bool {
    called(text).any(|name| !name.contains(char::is_lowercase))
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_alphanumeric() && c != '_')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_only_condition_of_a_statement_is_named() {
        for (statement, tested) in [
            ("if (allDone == 1) {", "allDone == 1"),
            ("} else if (it->refcount > 1) {", "it->refcount > 1"),
            ("while (low < high) {", "low < high"),
            ("for (int i = 0; i < n; i++) {", "i < n"),
            ("assert(left == BUFFERS);", "left == BUFFERS"),
            ("if( p->nRef>0 ){", "p->nRef>0"),
            ("if ((a + b) * 2 != c) return;", "(a + b) * 2 != c"),
            ("if (old != NULL)", "old != NULL"),
        ] {
            for (outcome, holds) in [(0, true), (1, false)] {
                let expected = Decision::Condition { tested, holds };
                assert_eq!(decision(statement, outcome), expected, "{statement}");
            }
            assert_eq!(decision(statement, 2), Decision::Unclear);
        }
    }

    #[test]
    fn of_several_conditions_none_is_named() {
        for statement in [
            "if (a > 1 && b > 2)",
            "while (atomic_load(&box->letters) == 0) {",
            "if (a == 1) while (b < 2) b++;",
            "if (a == 1) b = c ? d : e;",
            "if (a ==",
            "if (c == '(') x();",
            "for (auto item : items) {",
            "int n = argc > 1 ? atoi(argv[1]) : 2;",
        ] {
            let expected = Decision::OneOfSeveral { holds: false };
            assert_eq!(decision(statement, 1), expected, "{statement}");
        }
    }

    #[test]
    fn what_clang_or_a_macro_may_turn_round_is_unclear() {
        for statement in [
            "if (!p)",
            "if (not p)",
            "while (!atomic_load(&s->closing)) {",
            "assert(!ap_queue_full(queue));",
            "if (CHECK(x))",
            "if (a) switch (b) {",
            "switch (a ? b : c) {",
            "",
        ] {
            assert_eq!(decision(statement, 0), Decision::Unclear, "{statement}");
        }
    }

    #[test]
    fn of_a_switch_the_value_is_named() {
        let expected = Decision::Switch { value: -1 };
        assert_eq!(decision("switch (kind) {", u32::MAX), expected);
    }
}
