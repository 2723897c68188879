//! Machine addresses of a binary to statements of its build, and back.
//!
//! A statement is what debug info puts on one line of one function, so the line
//! table is the map. Each of its rows covers a range of addresses; its function
//! is the innermost one there, inlined or not: the statement of an inlined
//! function is the same one wherever it was inlined. Rows of line 0 belong to no
//! statement. A tail call needs nothing special: a jump into another function
//! is followed by rows of that function.
//!
//! The map is a sorted list of ranges, made once; blocks are looked up in it and
//! what they turn out to be is remembered, since a trace consists of the same
//! blocks over and over.
//!
//! Deliberately absent: which of two merged functions ran. Their code is one,
//! and so is its statement.

use crate::{
    address_hash::AddressHasher, branches::BranchMap, elf::Segments, libipt::ExecutedBlock,
};
use addr2line::{
    Context,
    gimli::{self, Dwarf, EndianSlice, LittleEndian, SectionId},
};
use object::{Object, ObjectSection};
use serde::{Deserialize, Serialize};
use sketch_model::{MappedCode, RuntimeAddress, StatementId, StaticAddress};
use std::{
    collections::{BTreeMap, HashMap},
    hash::BuildHasherDefault,
    ops::Range,
};
use thiserror::Error;

/// A binary without a map.
#[derive(Debug, Error)]
pub enum StatementMapError {
    #[error("the binary is not a readable ELF file: {0}; register the build again")]
    NotAnObject(#[from] object::Error),
    #[error("the binary's debug info cannot be read: {0}; register the build again")]
    BadDebugInfo(#[from] gimli::Error),
    #[error("the binary has no line table; build it with `failsketch cc` and register it")]
    NoLines,
}

/// Code of one statement, contiguous.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Row {
    from: u64,
    to: u64,
    statement: StatementId,
    #[serde(default)]
    column: u32,
}

/// The statements of one binary by address, and the addresses by statement.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct StatementMap {
    segments: Segments,
    /// Sorted, without overlap.
    rows: Vec<Row>,
    /// Made from the rows; JSON has no keys but text.
    #[serde(skip)]
    places: BTreeMap<StatementId, Vec<Range<StaticAddress>>>,
}

type Bytes<'b> = EndianSlice<'b, LittleEndian>;

impl StatementMap {
    /// `statement` finds a statement of the build by what debug info says:
    /// linkage name of the function, file, line.
    pub fn new(
        binary: &[u8],
        statement: impl Fn(Option<&str>, &str, u32) -> Option<StatementId>,
    ) -> Result<Self, StatementMapError> {
        let file = object::File::parse(binary)?;
        let segments = Segments::of(&file);
        let section = |id: SectionId| -> Result<Bytes<'_>, gimli::Error> {
            let section = file.section_by_name(id.name());
            let data = section.and_then(|it| it.data().ok()).unwrap_or_default();
            Ok(EndianSlice::new(data, LittleEndian))
        };
        let context = Context::from_dwarf(Dwarf::load(section)?)?;
        let (from, to) = segments.span().ok_or(StatementMapError::NoLines)?;
        let mut rows = Vec::new();
        for (start, length, location) in context.find_location_range(from, to)? {
            let (Some(name), Some(line)) = (location.file, location.line.filter(|n| *n > 0)) else {
                continue;
            };
            // A compiler begins a row where it begins an inlined function.
            let function = innermost(&context, start);
            let found = statement(function.as_deref(), name, line);
            rows.extend(found.map(|statement| Row {
                from: start,
                to: start.saturating_add(length),
                statement,
                column: location.column.unwrap_or(0),
            }));
        }
        if rows.is_empty() {
            return Err(StatementMapError::NoLines);
        }
        Ok(Self::of_rows(segments, rows))
    }

    fn of_rows(segments: Segments, mut rows: Vec<Row>) -> Self {
        rows.sort_by_key(|row| (row.from, row.to));
        let mut joined: Vec<Row> = Vec::with_capacity(rows.len());
        for mut row in rows {
            if let Some(last) = joined.last_mut() {
                row.from = row.from.max(last.to);
                if row.from >= row.to {
                    continue;
                }
                if last.to == row.from
                    && (last.statement, last.column) == (row.statement, row.column)
                {
                    last.to = row.to;
                    continue;
                }
            }
            joined.push(row);
        }
        let mut places: BTreeMap<_, Vec<Range<StaticAddress>>> = BTreeMap::new();
        for row in &joined {
            let range = StaticAddress(row.from)..StaticAddress(row.to);
            let ranges = places.entry(row.statement).or_default();
            match ranges.last_mut() {
                Some(last) if last.end == range.start => last.end = range.end,
                _ => ranges.push(range),
            }
        }
        Self {
            segments,
            rows: joined,
            places,
        }
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
    pub(crate) fn ranges(&self) -> impl Iterator<Item = (Range<u64>, StatementId, u32)> {
        let rows = self.rows.iter();
        rows.map(|row| (row.from..row.to, row.statement, row.column))
    }

    /// Where the code of a statement lies; in several places if it was inlined
    /// or spread by the optimiser, in none if nothing is left of it.
    pub fn places(&self, statement: StatementId) -> &[Range<StaticAddress>] {
        self.places.get(&statement).map_or(&[], Vec::as_slice)
    }

    /// Statements that have code.
    pub fn statements(&self) -> impl Iterator<Item = StatementId> {
        self.places.keys().copied()
    }

    /// One more than the largest statement's number.
    pub(crate) fn end_of_ids(&self) -> usize {
        let numbers = self.rows.iter().map(|row| row.statement.0 as usize + 1);
        numbers.max().unwrap_or(0)
    }

    /// The statements of contiguous code, in the order of its addresses; one
    /// that is left and entered again comes twice.
    fn along(&self, from: u64, last: u64, out: &mut Vec<StatementId>) {
        let first = self.rows.partition_point(|row| row.to <= from);
        for row in &self.rows[first..] {
            if row.from > last {
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
        self.segments
            .address_of(mapped.file_offset.checked_add(within)?)
    }
}

fn innermost(context: &Context<Bytes<'_>>, at: u64) -> Option<String> {
    let mut frames = context.find_frames(at).skip_all_loads().ok()?;
    let frame = frames.next().ok()??;
    let name = frame.function.as_ref()?.raw_name().ok()?;
    Some(name.into_owned())
}

/// Blocks of one process to statements of one binary in it.
pub struct BlockStatements<'m> {
    map: &'m StatementMap,
    branches: Option<&'m BranchMap>,
    mapped: Vec<MappedCode>,
    known: HashMap<ExecutedBlock, Known, BuildHasherDefault<AddressHasher>>,
    /// Those that were asked for last, by a few bits of their address.
    recent: Vec<(ExecutedBlock, Known)>,
    lists: Vec<StatementId>,
}

/// What a block turned out to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Known {
    /// Where in the lists its statements lie.
    from: u32,
    to: u32,
    /// Its last instruction is a jump of a recognised branch.
    pub(crate) jump: Option<u32>,
    /// Its last instruction lies in the binary.
    pub(crate) own: bool,
}

/// Blocks that are remembered; a program has fewer, bytes from outside may not.
const MOST_KNOWN: usize = 1 << 20;
/// Of these the last ones are found at once.
const RECENT: usize = 1 << 13;
/// A block of no instructions does not exist.
const NO_BLOCK: (ExecutedBlock, Known) = (
    ExecutedBlock {
        start: RuntimeAddress(0),
        last: RuntimeAddress(0),
        instructions: 0,
    },
    Known {
        from: 0,
        to: 0,
        jump: None,
        own: false,
    },
);

impl<'m> BlockStatements<'m> {
    /// `mapped` are the mappings of the binary.
    pub fn new(map: &'m StatementMap, mapped: Vec<MappedCode>) -> Self {
        Self {
            map,
            branches: None,
            mapped,
            known: HashMap::default(),
            recent: vec![NO_BLOCK; RECENT],
            lists: Vec::new(),
        }
    }

    /// Tells jumps as well.
    pub(crate) fn with_branches(self, branches: Option<&'m BranchMap>) -> Self {
        Self { branches, ..self }
    }

    /// The statements of a block, in the order in which they were executed.
    /// None if its code is that of another file or of no statement.
    pub fn of(&mut self, block: ExecutedBlock) -> &[StatementId] {
        let known = self.known(block);
        self.list(known)
    }

    pub(crate) fn list(&self, known: Known) -> &[StatementId] {
        &self.lists[known.from as usize..known.to as usize]
    }

    #[inline]
    pub(crate) fn known(&mut self, block: ExecutedBlock) -> Known {
        let place = (block.start.0 ^ block.start.0 >> 13) as usize % RECENT;
        let (recent, known) = self.recent[place];
        if recent == block {
            return known;
        }
        let known = match self.known.get(&block) {
            Some(known) => *known,
            None => self.learn(block),
        };
        self.recent[place] = (block, known);
        known
    }

    fn learn(&mut self, block: ExecutedBlock) -> Known {
        if self.known.len() >= MOST_KNOWN {
            self.known.clear();
            self.recent.fill(NO_BLOCK);
            self.lists.clear();
        }
        let from = self.lists.len() as u32;
        let place = self.mapped.iter().find_map(|mapped| {
            let from = self.map.static_address(mapped, block.start)?;
            let last = self.map.static_address(mapped, block.last)?;
            Some((from, last))
        });
        let mut found = Vec::new();
        let mut jump = None;
        if let Some((from, last)) = place {
            self.map.along(from.0, last.0, &mut found);
            jump = self.branches.and_then(|it| it.jump_at(last));
        }
        self.lists.extend(found);
        let known = Known {
            from,
            to: self.lists.len() as u32,
            jump,
            own: self.owns(block.last),
        };
        self.known.insert(block, known);
        known
    }

    /// Whether an address lies in the binary.
    pub fn owns(&self, at: RuntimeAddress) -> bool {
        let mut mapped = self.mapped.iter();
        mapped.any(|it| at.0.checked_sub(it.start.0).is_some_and(|n| n < it.length))
    }

    /// The way of its branch that a jump at `at` took, if `next` ran after it.
    pub(crate) fn way(&self, number: u32, at: RuntimeAddress, next: RuntimeAddress) -> Option<Way> {
        let jump = self.branches?.jump(number)?;
        let next = jump.at.wrapping_add(next.0.wrapping_sub(at.0));
        let side = match next {
            _ if next == jump.target => jump.on_target,
            _ if next == jump.next => jump.on_next,
            _ => None,
        };
        side.map(|way| Way {
            branch: jump.branch,
            way,
        })
    }
}

/// A branch of a [`BranchMap`] and one of its ways.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Way {
    pub(crate) branch: u32,
    pub(crate) way: u8,
}
