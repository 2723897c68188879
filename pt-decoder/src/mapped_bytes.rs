//! The bytes of a mapping.
//!
//! Code needs no ELF: a mapping names its place in the file.

use sketch_model::MappedCode;
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
