//! The code that a traced process had mapped: bytes at run-time addresses.
//!
//! Sections are values, shared by `Arc`: processes run the same files. They must
//! not overlap: which of two codes ran is not for us to guess.
//!
//! Deliberately absent: reading files, and code that changes during the run:
//! an image is one moment (`address_space.rs` knows the others).

use sketch_model::RuntimeAddress;
use std::{collections::BTreeMap, sync::Arc};
use thiserror::Error;

/// A section that cannot be part of an image.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ImageError {
    #[error("a section of {length} bytes at {start} leaves the address space; check its mapping")]
    BeyondAddressSpace {
        start: RuntimeAddress,
        length: usize,
    },
    #[error("the section at {start} overlaps the one at {other}; give each address one code")]
    Overlap {
        start: RuntimeAddress,
        other: RuntimeAddress,
    },
}

/// Code sections by the address at which they ran.
#[derive(Clone, Debug, Default)]
pub struct CodeImage {
    sections: BTreeMap<u64, Arc<[u8]>>,
}

impl CodeImage {
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a section. An empty one changes nothing.
    pub fn add(
        &mut self,
        start: RuntimeAddress,
        bytes: impl Into<Arc<[u8]>>,
    ) -> Result<(), ImageError> {
        let bytes = bytes.into();
        let length = bytes.len();
        let Some(last_offset) = length.checked_sub(1) else {
            return Ok(());
        };
        let last = start
            .0
            .checked_add(last_offset as u64)
            .ok_or(ImageError::BeyondAddressSpace { start, length })?;
        if let Some((&other, others)) = self.sections.range(..=last).next_back()
            && other + (others.len() as u64 - 1) >= start.0
        {
            let other = RuntimeAddress(other);
            return Err(ImageError::Overlap { start, other });
        }
        self.sections.insert(start.0, bytes);
        Ok(())
    }

    /// Whether any code is known at the address.
    pub fn knows(&self, at: RuntimeAddress) -> bool {
        self.read(at, &mut [0]) == 1
    }

    /// Bytes of code.
    pub fn size(&self) -> u64 {
        self.sections.values().map(|bytes| bytes.len() as u64).sum()
    }

    /// The sections, by address.
    pub(crate) fn sections(&self) -> impl Iterator<Item = (u64, &[u8])> {
        self.sections.iter().map(|(at, bytes)| (*at, &**bytes))
    }

    /// Copies the bytes at `at` into `buffer` and returns how many are known,
    /// up to the end of the section.
    pub fn read(&self, at: RuntimeAddress, buffer: &mut [u8]) -> usize {
        let Some((start, bytes)) = self.sections.range(..=at.0).next_back() else {
            return 0;
        };
        let known = usize::try_from(at.0 - start)
            .ok()
            .and_then(|offset| bytes.get(offset..))
            .unwrap_or_default();
        let count = known.len().min(buffer.len());
        buffer[..count].copy_from_slice(&known[..count]);
        count
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_stop_where_knowledge_stops() {
        let mut image = CodeImage::new();
        image.add(RuntimeAddress(0x1000), [1, 2, 3]).unwrap();
        image.add(RuntimeAddress(0x1003), [4]).unwrap();
        let mut buffer = [0; 8];
        assert_eq!(image.read(RuntimeAddress(0xfff), &mut buffer), 0);
        assert_eq!(image.read(RuntimeAddress(0x1001), &mut buffer), 2);
        assert_eq!(buffer[..2], [2, 3]);
        assert_eq!(image.read(RuntimeAddress(0x1003), &mut buffer), 1);
        assert_eq!(image.read(RuntimeAddress(0x1004), &mut buffer), 0);
        assert_eq!(image.read(RuntimeAddress(u64::MAX), &mut buffer), 0);
    }

    #[test]
    fn sections_that_cannot_be_are_refused() {
        let mut image = CodeImage::new();
        let other = RuntimeAddress(0x1000);
        image.add(other, [0; 16]).unwrap();
        for start in [0xfff, 0x1000, 0x100f] {
            let start = RuntimeAddress(start);
            assert_eq!(
                image.add(start, [0; 2]),
                Err(ImageError::Overlap { start, other })
            );
        }
        assert_eq!(image.add(RuntimeAddress(u64::MAX), [0; 1]), Ok(()));
        let start = RuntimeAddress(u64::MAX - 1);
        assert_eq!(
            image.add(start, [0; 3]),
            Err(ImageError::BeyondAddressSpace { start, length: 3 })
        );
    }
}
