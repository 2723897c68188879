//! Which failures are taken for one bug.
//!
//! A bug between threads strikes where it happens to strike: a pointer that leads
//! nowhere is followed at one line of a function in one run and at the next line in
//! another, or the allocator notices first and ends the program itself. Each of these
//! places is a *face* of the failure and has a signature of its own. What they have in
//! common is the innermost function that the program's authors wrote: measured on
//! programs with one fault each, their failures had 8 and 17 signatures, and two thirds
//! and more of them one such function. So a campaign is of a family, and lists its faces.
//!
//! Deviation from what a signal says: a family takes in all signals alike, because a
//! pointer that leads nowhere is a SIGSEGV or, through the allocator, a SIGABRT. What
//! the program said by itself (an exit code, a failed check) and hangs are families of
//! their own kind.

use super::LocatedFailure;
use serde::{Deserialize, Serialize};
use sketch_model::{BuildId, FailureKind, FailureSignature, Statement};
use std::fmt;

/// Faces that are listed by themselves; what comes further counts for the last one.
pub const MOST_FACES: usize = 64;

/// Failures that are taken for one bug, until their causes say otherwise.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Family(String);

impl fmt::Display for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Family {
    pub fn of(build: &BuildId, failure: &LocatedFailure) -> Family {
        let stack = std::iter::once(&failure.failing).chain(&failure.callers);
        let own = stack.clone().find(|statement| !is_of_a_library(statement));
        let function = &own.unwrap_or(&failure.failing).function;
        Family(match &failure.kind {
            FailureKind::Signal { .. } => format!("{build} {function}"),
            kind => format!("{build} {kind} {function}"),
        })
    }

    /// A failure of which no statement is known is like no other.
    pub fn of_signature(signature: &FailureSignature) -> Family {
        Family(signature.0.clone())
    }
}

/// Whether a statement stands in a library's header, inlined into the program.
fn is_of_a_library(statement: &Statement) -> bool {
    let file = &statement.location.file;
    file.starts_with("/usr/include/") || file.starts_with("/usr/lib/")
}

/// One of the places where a family's failures strike.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Face {
    pub signature: FailureSignature,
    pub title: String,
    pub kind: FailureKind,
    /// Failing runs that showed it, tracked or not.
    pub failures: u64,
}

/// Takes note of a failing run.
pub(super) fn note(faces: &mut Vec<Face>, seen: Face) {
    let known = faces
        .iter()
        .position(|face| face.signature == seen.signature);
    match known.or((faces.len() == MOST_FACES).then_some(MOST_FACES - 1)) {
        Some(at) => faces[at].failures += seen.failures,
        None => faces.push(seen),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sketch_model::{SourceLocation, StatementId};

    fn at(function: &str, file: &str, line: u32) -> Statement {
        Statement {
            id: StatementId(line),
            function: function.into(),
            location: SourceLocation {
                file: file.into(),
                line,
            },
            text: String::new(),
        }
    }

    fn failure(number: i32, name: &str, stack: &[Statement]) -> LocatedFailure {
        LocatedFailure {
            kind: FailureKind::Signal {
                number,
                name: name.into(),
            },
            failing: stack[0].clone(),
            callers: stack[1..].to_vec(),
            others: Vec::new(),
            said: None,
        }
    }

    #[test]
    fn places_in_one_function_and_what_it_called_of_a_library_are_one_family() {
        let build = BuildId("ab".into());
        let header = "/usr/include/c++/14/bits/shared_ptr_base.h";
        let family = |failure: &LocatedFailure| Family::of(&build, failure);
        let main = at("main", "/src/a.cpp", 90);
        let here = failure(
            11,
            "SIGSEGV",
            &[at("cost_of", "/src/a.cpp", 40), main.clone()],
        );
        let next = failure(
            11,
            "SIGSEGV",
            &[at("cost_of", "/src/a.cpp", 42), main.clone()],
        );
        let inside = [
            at("_M_release", header, 316),
            at("cost_of", "/src/a.cpp", 44),
            main.clone(),
        ];
        let inside = failure(6, "SIGABRT", &inside);
        assert_eq!(family(&here), family(&next));
        assert_eq!(family(&here), family(&inside));
        let elsewhere = failure(11, "SIGSEGV", &[at("reload", "/src/a.cpp", 30), main]);
        assert_ne!(family(&here), family(&elsewhere));
        let told = LocatedFailure {
            kind: FailureKind::ExitCode(3),
            ..here.clone()
        };
        assert_ne!(family(&here), family(&told));
    }

    #[test]
    fn faces_are_counted_and_bounded() {
        let mut faces = Vec::new();
        for number in (0..100).chain(0..10) {
            let seen = Face {
                signature: FailureSignature(number.to_string()),
                title: String::new(),
                kind: FailureKind::ExitCode(1),
                failures: 1,
            };
            note(&mut faces, seen);
        }
        assert_eq!(faces.len(), MOST_FACES);
        assert_eq!(faces[0].failures, 2);
        let all: u64 = faces.iter().map(|face| face.failures).sum();
        assert_eq!(all, 110);
    }
}
