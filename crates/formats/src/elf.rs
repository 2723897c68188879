//! An ELF file as the agent and the decoder see it: identity, load segments, unwind
//! tables, wishes to the loader.
//!
//! Pure: bytes in, values out; a damaged file yields `None`.

use crate::dynamic::Dynamic;
use object::{
    Endianness, Object, ObjectSection,
    elf::{FileHeader64, PF_X, PT_INTERP, PT_LOAD},
    read::elf::{ElfFile64, FileHeader, ProgramHeader},
};
use sketch_model::BuildId;
use std::{ops::Range, sync::Arc};

/// An executable load segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CodeSegment {
    pub file_offset: u64,
    pub file_size: u64,
    pub address: u64,
}

/// A section's place and bytes.
#[derive(Clone, Debug)]
pub struct Section {
    pub addresses: Range<u64>,
    /// Shared: every mapping of the file has them.
    pub bytes: Arc<[u8]>,
}

/// Code with its unwind tables.
#[derive(Clone, Debug)]
pub struct Unwindable {
    pub text: Option<Range<u64>>,
    pub eh_frame: Option<Section>,
    pub eh_frame_hdr: Option<Section>,
}

/// The GNU build-id of a file, in lower-case hex.
pub fn build_id(file: &[u8]) -> Option<BuildId> {
    let file = object::File::parse(file).ok()?;
    Some(BuildId(hex::encode(file.build_id().ok()??)))
}

/// Is this an x86-64 ELF file? Checked before anything else is believed.
pub fn is_x86_64(file: &ElfFile64<'_>) -> bool {
    file.endian() == Endianness::Little && file.architecture() == object::Architecture::X86_64
}

/// What a process and its supervisor need of an ELF file.
#[derive(Clone, Debug)]
pub struct ElfFacts {
    pub build_id: Option<BuildId>,
    /// Has an interpreter, so that LD_PRELOAD works on it.
    pub dynamic: bool,
    pub loading: Dynamic,
    pub code: Vec<CodeSegment>,
    pub unwindable: Unwindable,
    /// The same of what a tracked build appends to its program.
    pub appended: Unwindable,
}

impl ElfFacts {
    /// `None` if these bytes are no 64-bit ELF file.
    pub fn read(bytes: &[u8]) -> Option<ElfFacts> {
        let file = ElfFile64::<Endianness>::parse(bytes).ok()?;
        let endian = file.endian();
        let header: &FileHeader64<Endianness> = file.elf_header();
        let segments = header.program_headers(endian, bytes).ok()?;
        let section = |name: &str| {
            let section = file.section_by_name(name)?;
            let start = section.address();
            Some(Section {
                addresses: start..start.checked_add(section.size())?,
                bytes: section.data().ok()?.into(),
            })
        };
        let addresses = |name: &str| {
            let section = file.section_by_name(name)?;
            Some(section.address()..section.address().checked_add(section.size())?)
        };
        let unwindable = |prefix: &str| Unwindable {
            text: addresses(&format!("{prefix}.text")),
            eh_frame: section(&format!("{prefix}.eh_frame")),
            eh_frame_hdr: section(&format!("{prefix}.eh_frame_hdr")),
        };
        Some(ElfFacts {
            build_id: file
                .build_id()
                .ok()
                .flatten()
                .map(|id| BuildId(hex::encode(id))),
            dynamic: segments.iter().any(|s| s.p_type(endian) == PT_INTERP),
            loading: Dynamic::read(segments, endian, bytes),
            code: segments
                .iter()
                .filter(|s| s.p_type(endian) == PT_LOAD && s.p_flags(endian).0 & PF_X.0 != 0)
                .map(|s| CodeSegment {
                    file_offset: s.p_offset(endian),
                    file_size: s.p_filesz(endian),
                    address: s.p_vaddr(endian),
                })
                .collect(),
            unwindable: unwindable(""),
            appended: unwindable(".tracked"),
        })
    }

    /// The address behind a mark in the code, at a multiple of the mark's length.
    /// `None` if there is no mark, or more than one.
    pub fn behind_mark(&self, bytes: &[u8], mark: &[u8]) -> Option<u64> {
        if mark.is_empty() {
            return None;
        }
        let size = mark.len() as u64;
        let mut found = self.code.iter().flat_map(|segment| {
            // A segment lies in its file as it lies on its page.
            let skipped = segment.file_offset.wrapping_neg() % size;
            let from = usize::try_from(segment.file_offset).ok();
            let length = usize::try_from(segment.file_size).ok();
            let code = from.zip(length).and_then(|(from, length)| {
                let from = from.checked_add(skipped as usize)?;
                bytes
                    .get(from..)?
                    .get(..length.checked_sub(skipped as usize)?)
            });
            let chunks = code.unwrap_or_default().chunks_exact(mark.len());
            let behind = (1u64..).map(move |n| segment.address.wrapping_add(skipped + n * size));
            let marked = chunks.zip(behind).filter(|(chunk, _)| *chunk == mark);
            marked.map(|(_, address)| address)
        });
        found.next().filter(|_| found.next().is_none())
    }

    /// What must be added to the file's addresses to get those of a process that
    /// maps the file from `file_offset` at `start`.
    pub fn load_bias(&self, start: u64, file_offset: u64) -> Option<u64> {
        const PAGE: u64 = 4096;
        let segment = self.code.iter().find(|segment| {
            let first = segment.file_offset / PAGE * PAGE;
            (first..segment.file_offset.saturating_add(segment.file_size)).contains(&file_offset)
        })?;
        // start = bias + address − (offset in file of address − file_offset)
        Some(
            start
                .wrapping_sub(file_offset)
                .wrapping_add(segment.file_offset)
                .wrapping_sub(segment.address),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MARK: [u8; 16] = *b"0123456789abcdef";
    const NOTHING: Unwindable = Unwindable {
        text: None,
        eh_frame: None,
        eh_frame_hdr: None,
    };

    fn with_code(file_offset: u64, file_size: u64, address: u64) -> ElfFacts {
        ElfFacts {
            build_id: None,
            dynamic: true,
            loading: Dynamic::default(),
            code: vec![CodeSegment {
                file_offset,
                file_size,
                address,
            }],
            unwindable: NOTHING,
            appended: NOTHING,
        }
    }

    #[test]
    fn the_place_behind_a_mark_is_found_if_there_is_one_only() {
        let mut bytes = vec![0; 0x200];
        let facts = with_code(0x108, 0xe8, 0x2108);
        assert_eq!(facts.behind_mark(&bytes, &MARK), None);
        bytes[0x140..0x150].copy_from_slice(&MARK);
        assert_eq!(facts.behind_mark(&bytes, &MARK), Some(0x2150));
        // Not in code.
        bytes[0x40..0x50].copy_from_slice(&MARK);
        assert_eq!(facts.behind_mark(&bytes, &MARK), Some(0x2150));
        bytes[0x1e0..0x1f0].copy_from_slice(&MARK);
        assert_eq!(facts.behind_mark(&bytes, &MARK), None);
        // A segment that its file does not hold.
        let damaged = with_code(u64::MAX - 3, u64::MAX, u64::MAX);
        assert_eq!(damaged.behind_mark(&bytes, &MARK), None);
    }

    #[test]
    fn the_bias_of_a_segment_that_does_not_start_on_a_page() {
        let facts = with_code(0x1740, 0x900, 0x2740);
        assert_eq!(
            facts.load_bias(0x5555_0000_2000, 0x1000),
            Some(0x5555_0000_0000)
        );
        assert_eq!(facts.load_bias(0x5555_0000_2000, 0x9000), None);
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_panic(mut bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
            ElfFacts::read(&bytes);
            let header = b"\x7fELF\x02\x01\x01";
            if bytes.len() > header.len() {
                bytes[..header.len()].copy_from_slice(header);
            }
            if let Some(facts) = ElfFacts::read(&bytes) {
                facts.behind_mark(&bytes, &MARK);
            }
        }
    }
}
