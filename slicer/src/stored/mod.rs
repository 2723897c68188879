//! A program as bytes, so that a build's graph is made once.
//!
//! The bytes begin with what made them: a mark, the format, a fingerprint of this
//! crate's own source (`build.rs`) and the build. A graph of another version of
//! the analysis is another graph, even where the format is the same, and the
//! fingerprint notices what nobody remembers to count up. Whatever does not
//! agree is refused, and the caller makes the graph anew from the bitcode. The
//! rest is as postcard writes it: fields in order, numbers as varints, nothing
//! that describes itself.
//!
//! Bytes that agree are still not trusted. For a list whose length is only
//! claimed, serde reserves a mebibyte at most; postcard refuses a text that is
//! longer than what is left; so memory is bounded by the bytes that are there.
//! Every number that is an index later is checked once after reading (`sound`).
//!
//! Deliberately absent: a checksum. The build store has one for all it keeps.

pub(crate) mod validate;

use crate::calls::CallGraph;
use crate::dependences::graph::Graph;
use crate::ir::program::*;
use crate::memory::stores::StoreIndex;
use rustc_hash::FxHashMap;
use sketch_model::{BuildId, SourceLocation, StatementId};
use std::sync::OnceLock;
use validate::is_sound;

const MARK: &[u8; 8] = b"fsgraph\n";
/// Of how the rest is written: 1 was written by hand, 2 is postcard's, 3 has gaps as values.
const FORMAT: u32 = 3;
/// Of the source of this crate; see `build.rs`.
const MADE_BY: &str = env!("SLICER_SOURCE");

/// What follows the head, in order. The statement table is names and rows: a
/// program says its few hundred files and functions in every row.
type Body<'a> = (
    Vec<Function>,
    Symbols,
    (Vec<&'a str>, Vec<Row>),
    Vec<Vec<InstructionRef>>,
    FxHashMap<String, Vec<StatementId>>,
    StoreIndex,
    CallGraph,
    Vec<ProgramGap>,
    Graph,
);

/// A statement: the places of its function and its file among the names, and the
/// line. The row's own place is the id.
type Row = (u32, u32, u32);

/// Text that the statements of a program may hold together. Rows of a few bytes
/// name a text of any length, so this bounds what bytes can grow to.
const MOST_TEXT: usize = 1 << 30;

/// Why bytes are not the stored graph that was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GraphError {
    #[error("these bytes are not a stored graph")]
    Foreign,
    #[error("the stored graph was made by another version of failsketch")]
    OtherVersion,
    #[error("the stored graph is of another build")]
    OtherBuild,
    #[error("the stored graph is damaged")]
    Damaged,
}

impl Program {
    /// What names the version of stored graphs: others are refused.
    pub fn graph_version() -> String {
        format!("{FORMAT}-{MADE_BY}")
    }

    /// The program with its dependences, for [`Program::from_bytes`].
    pub fn to_bytes(&self) -> Vec<u8> {
        let head = (FORMAT, MADE_BY, &*self.build.0);
        // As in `Body`.
        let body = (
            &self.functions,
            &self.symbols,
            names_and_rows(&self.statements),
            &self.members,
            &self.by_file_name,
            &self.stores,
            &self.calls,
            &self.gaps,
            self.graph(),
        );
        postcard::to_extend(&(head, body), MARK.to_vec())
            .expect("plain data of known lengths can be written to memory")
    }

    /// The program that [`Program::to_bytes`] wrote; an error for anything else.
    pub fn from_bytes(build: &BuildId, bytes: &[u8]) -> Result<Program, GraphError> {
        let rest = bytes.strip_prefix(MARK).ok_or(GraphError::Foreign)?;
        let head = postcard::take_from_bytes::<(u32, &str, &str)>(rest);
        let ((format, made_by, of_build), rest) = head.map_err(|_| GraphError::OtherVersion)?;
        if (format, made_by) != (FORMAT, MADE_BY) {
            return Err(GraphError::OtherVersion);
        }
        if of_build != build.0 {
            return Err(GraphError::OtherBuild);
        }
        let program = read_program(build, rest);
        program.filter(is_sound).ok_or(GraphError::Damaged)
    }
}

fn read_program(build: &BuildId, bytes: &[u8]) -> Option<Program> {
    let (body, rest) = postcard::take_from_bytes::<Body<'_>>(bytes).ok()?;
    let (functions, symbols, table, members, by_file_name, stores, calls, gaps, graph) = body;
    rest.is_empty().then_some(())?;
    let statements = statements(&table.0, &table.1)?;
    Some(Program {
        build: build.clone(),
        functions,
        symbols,
        libraries: libraries(&statements),
        statements,
        members,
        by_file_name,
        stores,
        calls,
        gaps,
        graph: OnceLock::from(graph),
    })
}

fn names_and_rows(table: &[StatementInfo]) -> (Vec<&str>, Vec<Row>) {
    let mut names: Vec<&str> = Vec::new();
    let mut known: FxHashMap<&str, u32> = FxHashMap::default();
    let mut rows = Vec::with_capacity(table.len());
    for StatementInfo {
        id: _,
        function,
        location: SourceLocation { file, line },
    } in table
    {
        let [function, file] = [function, file].map(|name| {
            *known.entry(name).or_insert_with(|| {
                names.push(name);
                names.len() as u32 - 1
            })
        });
        rows.push((function, file, *line));
    }
    (names, rows)
}

fn statements(names: &[&str], rows: &[Row]) -> Option<Vec<StatementInfo>> {
    let name = |place: u32| names.get(place as usize).copied();
    let mut lengths = rows
        .iter()
        .map(|(function, file, _)| Some(name(*function)?.len() + name(*file)?.len()));
    let all = lengths.try_fold(0, |sum: usize, length| sum.checked_add(length?));
    all.filter(|all| *all <= MOST_TEXT)?;
    let info = |(id, (function, file, line)): (u32, &Row)| {
        Some(StatementInfo {
            id: StatementId(id),
            function: name(*function)?.to_owned(),
            location: SourceLocation {
                file: name(*file)?.to_owned(),
                line: *line,
            },
        })
    };
    (0..).zip(rows).map(info).collect()
}

/// A library's callback by its place in the table, which the fingerprint covers.
pub(crate) mod callback {
    use crate::ir::library::{Callback, number_of_callback, numbered_callback};
    use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};

    pub fn serialize<S: Serializer>(
        callback: &Option<&'static Callback>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        callback.map(number_of_callback).serialize(to)
    }

    pub fn deserialize<'de, D>(from: D) -> Result<Option<&'static Callback>, D::Error>
    where
        D: Deserializer<'de>,
    {
        let number = Option::<usize>::deserialize(from)?;
        let known =
            |number| numbered_callback(number).ok_or_else(|| D::Error::custom("no such callback"));
        number.map(known).transpose()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_that_repeat_a_long_name_do_not_fill_the_memory() {
        let long = "x".repeat(1 << 20);
        let rows = |count| vec![(0, 1, 7); count];
        assert_eq!(statements(&[&long, "a.c"], &rows(3)).unwrap().len(), 3);
        assert_eq!(statements(&[&long, "a.c"], &rows(1 << 10)), None);
        assert_eq!(statements(&["main"], &rows(1)), None, "no such name");
    }
}
