//! Machine addresses of a binary to statements of its build.
//!
//! A statement is what debug info puts on one line of one function, so the line
//! table is the map. Each of its rows covers a range of addresses; its function
//! is the innermost one there, inlined or not: the statement of an inlined
//! function is the same one wherever it was inlined. Rows of line 0 belong to no
//! statement. A tail call needs nothing special: a jump into another function
//! is followed by rows of that function.
//!
//! Plain data, so that it can be sent to a process with limits, where traces are
//! decoded. [`crate::address_map`] makes it, and keeps inlined callers beside it.
//!
//! Deliberately absent: which of two merged functions ran. Their code is one,
//! and so is its statement.

use object::{Object, ObjectSegment, SegmentFlags};
use serde::{Deserialize, Serialize};
use sketch_model::{MappedCode, RuntimeAddress, StatementId, StaticAddress};
use std::ops::Range;

/// A piece of the file that is loaded: file offset against address.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct LoadedSegment {
    pub file_offset: u64,
    pub file_size: u64,
    pub address: u64,
    /// It holds code.
    #[serde(default)]
    pub executable: bool,
}

impl LoadedSegment {
    fn contains(&self, at: u64) -> bool {
        let within = at.checked_sub(self.address);
        within.is_some_and(|within| within < self.file_size)
    }
}

/// What of a file is loaded.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct LoadedSegments(pub Vec<LoadedSegment>);

impl LoadedSegments {
    pub fn of(file: &object::File<'_>) -> LoadedSegments {
        let segments = file.segments().map(|segment| {
            let (file_offset, file_size) = segment.file_range();
            let flags = segment.flags();
            LoadedSegment {
                file_offset,
                file_size,
                address: segment.address(),
                executable: matches!(flags, SegmentFlags::Elf { p_flags, .. } if p_flags.0 & crate::segments::PF_X != 0),
            }
        });
        LoadedSegments(segments.collect())
    }

    /// The address at which a byte of the file is loaded.
    pub fn address_of(&self, file_offset: u64) -> Option<StaticAddress> {
        self.0.iter().find_map(|it| {
            let within = file_offset.checked_sub(it.file_offset)?;
            (within < it.file_size).then(|| StaticAddress(it.address.wrapping_add(within)))
        })
    }

    /// Whether code of the file lies at an address.
    pub fn has_code_at(&self, at: u64) -> bool {
        self.0.iter().any(|it| it.executable && it.contains(at))
    }

    /// From where to where the file has code and data, in its addresses.
    pub fn span(&self) -> Option<(u64, u64)> {
        let from = self.0.iter().map(|it| it.address).min()?;
        let ends = self.0.iter();
        let ends = ends.map(|it| it.address.saturating_add(it.file_size));
        Some((from, ends.max()?))
    }
}

/// Code of one statement, contiguous.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StatementRow {
    pub from: u64,
    pub to: u64,
    pub statement: StatementId,
    #[serde(default)]
    pub column: u32,
}

/// The statements of one binary by address.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct StatementMap {
    segments: LoadedSegments,
    /// Sorted, without overlap.
    rows: Vec<StatementRow>,
}

impl StatementMap {
    /// `rows` are sorted and do not overlap; neighbours of one place are joined.
    pub(crate) fn new(
        segments: LoadedSegments,
        rows: impl IntoIterator<Item = StatementRow>,
    ) -> StatementMap {
        let mut joined: Vec<StatementRow> = Vec::new();
        for row in rows {
            match joined.last_mut() {
                Some(last)
                    if last.to == row.from
                        && (last.statement, last.column) == (row.statement, row.column) =>
                {
                    last.to = row.to;
                }
                _ => joined.push(row),
            }
        }
        StatementMap {
            segments,
            rows: joined,
        }
    }

    /// Whether no address belongs to a statement.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The statement whose code lies at an address.
    pub fn statement_at(&self, at: StaticAddress) -> Option<StatementId> {
        self.place_at(at).map(|(statement, _)| statement)
    }

    /// The same, with the column within it.
    pub fn place_at(&self, at: StaticAddress) -> Option<(StatementId, u32)> {
        let after = self.rows.partition_point(|row| row.from <= at.0);
        let row = self.rows[..after].last()?;
        (at.0 < row.to).then_some((row.statement, row.column))
    }

    /// Code by its place in the source, in the order of addresses.
    pub fn rows(&self) -> &[StatementRow] {
        &self.rows
    }

    /// Where the code of a statement lies; in several places if it was inlined
    /// or spread by the optimiser, in none if nothing is left of it.
    pub fn places(&self, statement: StatementId) -> Vec<Range<StaticAddress>> {
        let mut found: Vec<Range<StaticAddress>> = Vec::new();
        for row in self.rows.iter().filter(|row| row.statement == statement) {
            let (from, to) = (StaticAddress(row.from), StaticAddress(row.to));
            match found.last_mut() {
                Some(last) if last.end == from => last.end = to,
                _ => found.push(from..to),
            }
        }
        found
    }

    /// The statements of contiguous code, in the order of its addresses; one
    /// that is left and entered again comes twice.
    pub fn along(&self, from: StaticAddress, last: StaticAddress, out: &mut Vec<StatementId>) {
        let first = self.rows.partition_point(|row| row.to <= from.0);
        for row in &self.rows[first..] {
            if row.from > last.0 {
                return;
            }
            if out.last() != Some(&row.statement) {
                out.push(row.statement);
            }
        }
    }

    /// The address at which a byte of the file is loaded.
    pub fn address_of(&self, file_offset: u64) -> Option<StaticAddress> {
        self.segments.address_of(file_offset)
    }

    /// The file's address of a mapped byte.
    pub fn static_address(&self, mapped: &MappedCode, at: RuntimeAddress) -> Option<StaticAddress> {
        let within = at.0.checked_sub(mapped.start.0)?;
        if within >= mapped.length {
            return None;
        }
        self.address_of(mapped.file_offset.checked_add(within)?)
    }
}
