//! Which address of its ELF file a mapped byte has, and the bytes of a mapping.
//!
//! Code itself needs no ELF: a mapping names its place in the file.

use object::{Object, ObjectSegment};
use serde::{Deserialize, Serialize};
use sketch_model::{MappedCode, StaticAddress};
use std::sync::Arc;

/// The bytes that a mapping takes from its file, up to the file's end.
pub fn mapped_bytes(file: &[u8], mapped: &MappedCode) -> Result<Arc<[u8]>, String> {
    let start = usize::try_from(mapped.file_offset).unwrap_or(usize::MAX);
    let length = usize::try_from(mapped.length).unwrap_or(usize::MAX);
    match file.get(start..file.len().min(start.saturating_add(length))) {
        Some(bytes) if !bytes.is_empty() => Ok(bytes.into()),
        _ => Err("the file is shorter than its mapping; it is another one".to_owned()),
    }
}

/// A piece of the file that is loaded: file offset against address.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Segment {
    file_offset: u64,
    file_size: u64,
    address: u64,
}

/// The segments of a file.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Segments(Vec<Segment>);

impl Segments {
    pub(crate) fn of(file: &object::File<'_>) -> Self {
        let segments = file.segments().map(|segment| {
            let (file_offset, file_size) = segment.file_range();
            Segment {
                file_offset,
                file_size,
                address: segment.address(),
            }
        });
        Self(segments.collect())
    }

    /// The address at which a byte of the file is loaded.
    pub(crate) fn address_of(&self, file_offset: u64) -> Option<StaticAddress> {
        self.0.iter().find_map(|it| {
            let within = file_offset.checked_sub(it.file_offset)?;
            (within < it.file_size).then(|| StaticAddress(it.address.wrapping_add(within)))
        })
    }

    /// From where to where the file has code and data, in its addresses.
    pub(crate) fn span(&self) -> Option<(u64, u64)> {
        let from = self.0.iter().map(|it| it.address).min()?;
        let to = self
            .0
            .iter()
            .map(|it| it.address.saturating_add(it.file_size))
            .max()?;
        Some((from, to))
    }
}
