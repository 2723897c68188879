//! A binary's debug info, asked by address.
//!
//! Works on bytes, because tracked builds live in the blob store and never as
//! files of their own. `addr2line` caches lazily behind shared references and
//! is therefore not `Sync`; a mutex makes it so, which costs nothing here: one
//! thread asks.
//!
//! Absent: split and compressed DWARF, which `failsketch cc` does not produce.

use addr2line::gimli::{self, EndianArcSlice, LittleEndian};
use object::{Object, ObjectSection, ObjectSegment, ObjectSymbol, SymbolKind};
use parking_lot::Mutex;
use sketch_model::StaticAddress;
use std::sync::Arc;

type Bytes = EndianArcSlice<LittleEndian>;

/// One function at an address: the function itself, or one inlined into it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CodeFrame {
    /// Linkage name.
    pub function: Option<String>,
    pub file: Option<String>,
    pub line: Option<u32>,
}

/// A function's machine code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FunctionCode {
    pub name: String,
    pub start: StaticAddress,
    pub bytes: Vec<u8>,
}

/// A piece of the file that is loaded: file offset against address.
#[derive(Clone, Copy, Debug)]
struct Segment {
    file_offset: u64,
    file_size: u64,
    address: u64,
}

impl Segment {
    fn contains(&self, at: StaticAddress) -> bool {
        let offset = at.0.checked_sub(self.address);
        offset.is_some_and(|offset| offset < self.file_size)
    }
}

#[derive(Debug, thiserror::Error)]
pub enum SymbolsError {
    #[error("the binary is not a readable ELF file: {0}; register the build again")]
    NotAnObject(#[from] object::Error),
    #[error("the binary's debug info cannot be read: {0}; register the build again")]
    BadDebugInfo(#[from] gimli::Error),
}

pub struct Symbols {
    context: Mutex<addr2line::Context<Bytes>>,
    /// Sorted by start.
    functions: Vec<FunctionCode>,
    segments: Vec<Segment>,
    build_id: Option<String>,
}

impl Symbols {
    pub fn read(binary: &[u8]) -> Result<Symbols, SymbolsError> {
        let file = object::File::parse(binary)?;
        let section = |id: gimli::SectionId| -> Result<Bytes, gimli::Error> {
            let data = file
                .section_by_name(id.name())
                .and_then(|s| s.data().ok())
                .unwrap_or_default();
            Ok(EndianArcSlice::new(Arc::from(data), LittleEndian))
        };
        let dwarf = gimli::Dwarf::load(section)?;
        Ok(Symbols {
            context: Mutex::new(addr2line::Context::from_dwarf(dwarf)?),
            functions: functions(&file),
            segments: file
                .segments()
                .map(|s| Segment {
                    file_offset: s.file_range().0,
                    file_size: s.file_range().1,
                    address: s.address(),
                })
                .collect(),
            build_id: file.build_id()?.map(hex::encode),
        })
    }

    /// The GNU build-id, in lower-case hex.
    pub fn build_id(&self) -> Option<&str> {
        self.build_id.as_deref()
    }

    /// The address at which a byte of the file is loaded.
    pub fn address_of(&self, file_offset: u64) -> Option<StaticAddress> {
        self.segments.iter().find_map(|s| {
            let offset = file_offset.checked_sub(s.file_offset)?;
            (offset < s.file_size).then(|| StaticAddress(s.address.wrapping_add(offset)))
        })
    }

    /// The functions at an address, innermost inlined one first.
    pub fn frames(&self, at: StaticAddress) -> Vec<CodeFrame> {
        // Addresses come from the network, and `addr2line` computes with them
        // unchecked: it only gets to see those that the file has.
        if !self.segments.iter().any(|s| s.contains(at)) {
            return Vec::new();
        }
        let context = self.context.lock();
        let mut found = Vec::new();
        // Unreadable debug info of one unit leaves that address unknown; the
        // caller sees that it got no frame.
        let Ok(mut frames) = context.find_frames(at.0).skip_all_loads() else {
            return found;
        };
        while let Ok(Some(frame)) = frames.next() {
            let name = frame.function.as_ref().and_then(|f| f.raw_name().ok());
            found.push(CodeFrame {
                function: name.map(|n| n.into_owned()),
                file: frame
                    .location
                    .as_ref()
                    .and_then(|l| l.file)
                    .map(str::to_owned),
                line: frame.location.as_ref().and_then(|l| l.line),
            });
        }
        found
    }

    /// The function whose code an address lies in.
    pub fn function_at(&self, at: StaticAddress) -> Option<&FunctionCode> {
        let after = self.functions.partition_point(|f| f.start <= at);
        let function = self.functions[..after].last()?;
        let offset = at.0 - function.start.0;
        (offset < function.bytes.len() as u64).then_some(function)
    }
}

fn functions(file: &object::File<'_>) -> Vec<FunctionCode> {
    let mut found: Vec<FunctionCode> = file
        .symbols()
        .filter(|s| s.kind() == SymbolKind::Text && s.is_definition() && s.size() > 0)
        .filter_map(|s| {
            let bytes = file.segments().find_map(|segment| {
                segment
                    .data_range(s.address(), s.size())
                    .ok()
                    .flatten()
                    .map(<[u8]>::to_vec)
            })?;
            Some(FunctionCode {
                name: s.name().ok()?.to_owned(),
                start: StaticAddress(s.address()),
                bytes,
            })
        })
        .collect();
    found.sort_by_key(|f| (f.start, f.bytes.len()));
    found
}
