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

use crate::{blocks::ExecutedBlock, elf::Segments};
use addr2line::{
    Context,
    gimli::{self, Dwarf, EndianSlice, LittleEndian, SectionId},
};
use object::{Object, ObjectSection};
use serde::{Deserialize, Serialize};
use sketch_model::{MappedCode, RuntimeAddress, StatementId, StaticAddress};
use std::{
    collections::{BTreeMap, HashMap},
    hash::{BuildHasherDefault, Hasher},
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
                if last.to == row.from && last.statement == row.statement {
                    last.to = row.to;
                    continue;
                }
            }
            joined.push(row);
        }
        let mut places: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for row in &joined {
            let range = StaticAddress(row.from)..StaticAddress(row.to);
            places.entry(row.statement).or_default().push(range);
        }
        Self {
            segments,
            rows: joined,
            places,
        }
    }

    /// The statement whose code lies at an address.
    pub fn statement_at(&self, at: StaticAddress) -> Option<StatementId> {
        let after = self.rows.partition_point(|row| row.from <= at.0);
        let row = self.rows[..after].last()?;
        (at.0 < row.to).then_some(row.statement)
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
    mapped: Vec<MappedCode>,
    /// Where in `lists` the statements of a block lie.
    known: HashMap<ExecutedBlock, Range<u32>, BuildHasherDefault<AddressHasher>>,
    lists: Vec<StatementId>,
}

/// Looked up once for every block of a trace, so it must be quick. What an
/// attacker can make collide is bounded by `MOST_KNOWN` and the worker's limits.
#[derive(Default)]
struct AddressHasher(u64);

impl Hasher for AddressHasher {
    fn finish(&self) -> u64 {
        self.0 ^ self.0 >> 32
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64((*byte).into());
        }
    }

    fn write_u32(&mut self, number: u32) {
        self.write_u64(number.into());
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = (self.0.rotate_left(23) ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
}

/// Blocks that are remembered; a program has fewer, bytes from outside may not.
const MOST_KNOWN: usize = 1 << 20;

impl<'m> BlockStatements<'m> {
    /// `mapped` are the mappings of the binary.
    pub fn new(map: &'m StatementMap, mapped: Vec<MappedCode>) -> Self {
        Self {
            map,
            mapped,
            known: HashMap::default(),
            lists: Vec::new(),
        }
    }

    /// The statements of a block, in the order in which they were executed.
    /// None if its code is that of another file or of no statement.
    pub fn of(&mut self, block: ExecutedBlock) -> &[StatementId] {
        if self.known.len() >= MOST_KNOWN {
            self.known.clear();
            self.lists.clear();
        }
        let range = match self.known.get(&block) {
            Some(range) => range.clone(),
            None => {
                let from = self.lists.len() as u32;
                self.look_up(block);
                let range = from..self.lists.len() as u32;
                self.known.insert(block, range.clone());
                range
            }
        };
        &self.lists[range.start as usize..range.end as usize]
    }

    /// Whether an address lies in the binary.
    pub fn owns(&self, at: RuntimeAddress) -> bool {
        let mut mapped = self.mapped.iter();
        mapped.any(|it| at.0.checked_sub(it.start.0).is_some_and(|n| n < it.length))
    }

    fn look_up(&mut self, block: ExecutedBlock) {
        let place = self.mapped.iter().find_map(|mapped| {
            let from = self.map.static_address(mapped, block.start)?;
            let last = self.map.static_address(mapped, block.last)?;
            Some((from.0, last.0))
        });
        let mut found = Vec::new();
        if let Some((from, last)) = place {
            self.map.along(from, last, &mut found);
        }
        self.lists.extend(found);
    }
}
