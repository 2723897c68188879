//! A failure in terms of statements, and its signature.
//!
//! A signature is readable text, made from statements and never from addresses,
//! so that P and each tracked build of it give the same one. How addresses become
//! statements is the server's matter: it needs debug info.

use serde::{Deserialize, Serialize};
use sketch_model::{BuildId, FailureKind, FailureSignature, LastWords, Statement};
use std::collections::BTreeSet;

/// Frames of a stack that make a signature. Deeper ones say how the program
/// got to its main loop, not which failure it is.
const SIGNATURE_FRAMES: usize = 12;

/// A failure in terms of statements.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LocatedFailure {
    pub kind: FailureKind,
    pub failing: Statement,
    /// The statements that called it, innermost first.
    pub callers: Vec<Statement>,
    /// The stacks of the other threads that wait, if the program hangs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub others: Vec<Vec<Statement>>,
    /// What the program said when it aborted the first time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub said: Option<LastWords>,
}

impl LocatedFailure {
    pub fn signature(&self, build: &BuildId) -> FailureSignature {
        let mut frames: Vec<String> = Vec::new();
        for statement in std::iter::once(&self.failing).chain(&self.callers) {
            let frame = described(statement);
            // Recursion of another depth is not another failure.
            if frames.last() != Some(&frame) {
                frames.push(frame);
            }
        }
        frames.truncate(SIGNATURE_FRAMES);
        // What a thread hangs in is told apart by what the others hang in.
        let others = self.others.iter().filter_map(|stack| stack.first());
        let others: BTreeSet<String> = others.map(described).collect();
        let others: String = others.iter().map(|other| format!(" & {other}")).collect();
        let frames = frames.join(" < ");
        FailureSignature(format!("{build} {} {frames}{others}", self.kind))
    }

    /// "SIGSEGV in consumer (pbzip2.c:120)"
    pub fn title(&self) -> String {
        format!("{} in {}", self.kind, described(&self.failing))
    }

    /// The stack, innermost first, as "function (file:line)", and where the
    /// other threads wait, if the program hangs.
    pub fn stack(&self) -> Vec<String> {
        let frames = std::iter::once(&self.failing).chain(&self.callers);
        let others = self.others.iter().filter_map(|stack| stack.first());
        let others =
            others.map(|at| format!("meanwhile another thread waits in {}", described(at)));
        frames.map(described).chain(others).collect()
    }
}

fn described(statement: &Statement) -> String {
    format!("{} ({})", statement.function, statement.location)
}

/// Whether the program ended itself: `abort`, a failed assertion, an uncaught
/// exception, a hardening check.
pub fn is_abort(kind: &FailureKind) -> bool {
    matches!(kind, FailureKind::Signal { name, .. } if name == "SIGABRT")
}

#[cfg(test)]
mod tests {
    use super::*;
    use sketch_model::{SourceLocation, StatementId};

    fn statement(function: &str, line: u32) -> Statement {
        Statement {
            id: StatementId(line),
            function: function.into(),
            location: SourceLocation {
                file: "/src/pbzip2.c".into(),
                line,
            },
            text: String::new(),
        }
    }

    fn failure(callers: Vec<Statement>) -> LocatedFailure {
        LocatedFailure {
            kind: FailureKind::Signal {
                number: 11,
                name: "SIGSEGV".into(),
            },
            failing: statement("consumer", 120),
            callers,
            others: Vec::new(),
            said: None,
        }
    }

    #[test]
    fn a_signature_reads_from_the_failing_statement_outward() {
        let located = failure(vec![statement("start", 40)]);
        assert_eq!(
            located.signature(&BuildId("ab12".into())).0,
            "ab12 SIGSEGV consumer (pbzip2.c:120) < start (pbzip2.c:40)"
        );
        assert_eq!(located.title(), "SIGSEGV in consumer (pbzip2.c:120)");
    }

    #[test]
    fn recursion_of_another_depth_is_the_same_failure() {
        let build = BuildId("ab12".into());
        let shallow = failure(vec![statement("walk", 7), statement("main", 9)]);
        let deep = failure(vec![
            statement("walk", 7),
            statement("walk", 7),
            statement("walk", 7),
            statement("main", 9),
        ]);
        assert_eq!(shallow.signature(&build), deep.signature(&build));
        let elsewhere = failure(vec![statement("walk", 8), statement("main", 9)]);
        assert_ne!(shallow.signature(&build), elsewhere.signature(&build));
    }
}
