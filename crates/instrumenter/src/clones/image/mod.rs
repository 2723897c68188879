//! The appended segment while it is made: two pieces of memory behind P's last page.
//!
//! The first holds code and constants and is never written; the second holds
//! data. Whatever the loader must add the slide to is noted on the way.

pub(crate) mod entry;
pub(crate) mod link;
pub(crate) mod resident;

use super::elf::original::DynamicRelocation;
use super::refusal::Refusal;
use formats::segments::PAGE;
use object::elf::{R_X86_64_64, R_X86_64_RELATIVE};
use std::collections::BTreeMap;

/// A stretch of memory that grows.
#[derive(Clone, Debug, Default)]
pub struct Piece {
    pub address: u64,
    pub bytes: Vec<u8>,
}

impl Piece {
    /// Makes room and says at which address.
    pub fn reserve(&mut self, size: u64, align: u64) -> u64 {
        let start = (self.address + self.bytes.len() as u64).next_multiple_of(align.max(1));
        let end = start + size - self.address;
        self.bytes.resize(end as usize, 0);
        start
    }

    pub fn end(&self) -> u64 {
        self.address + self.bytes.len() as u64
    }

    fn place(&mut self, address: u64, size: usize) -> Option<&mut [u8]> {
        let at = usize::try_from(address.checked_sub(self.address)?).ok()?;
        self.bytes.get_mut(at..at.checked_add(size)?)
    }
}

/// A function of the segment, for the server's symbol table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedCode {
    pub name: String,
    pub address: u64,
    pub size: u64,
}

/// Everything that is appended to P.
#[derive(Clone, Debug, Default)]
pub struct Image {
    pub code: Piece,
    pub data: Piece,
    /// Zero bytes behind the data.
    pub zero: u64,
    pub relocations: Vec<DynamicRelocation>,
    pub names: Vec<NamedCode>,
    /// What goes behind P's debug sections of the same names.
    pub debug: BTreeMap<String, Vec<u8>>,
    /// Stretches that tools know by name: name, address, size.
    pub sections: Vec<(&'static str, u64, u64)>,
    slides: bool,
}

impl Image {
    pub fn new(address: u64, slides: bool) -> Image {
        let mut image = Image {
            slides,
            ..Image::default()
        };
        image.code.address = address;
        image
    }

    /// No more code: data begins at the next page.
    pub fn begin_data(&mut self) {
        self.data.address = self.code.end().next_multiple_of(PAGE);
    }

    pub fn write(&mut self, address: u64, value: &[u8]) -> Result<(), Refusal> {
        let piece = if self.data.address != 0 && address >= self.data.address {
            &mut self.data
        } else {
            &mut self.code
        };
        let place = piece.place(address, value.len());
        let place = place.ok_or_else(|| Refusal::unusual("a relocation out of its section"))?;
        place.copy_from_slice(value);
        Ok(())
    }

    pub fn read(&self, address: u64, size: usize) -> Option<&[u8]> {
        let piece = if self.data.address != 0 && address >= self.data.address {
            &self.data
        } else {
            &self.code
        };
        let at = usize::try_from(address.checked_sub(piece.address)?).ok()?;
        piece.bytes.get(at..at.checked_add(size)?)
    }

    /// A pointer to `address`, which the loader corrects if the program slides.
    pub fn write_pointer(&mut self, place: u64, address: u64) -> Result<(), Refusal> {
        if self.slides {
            self.relocations.push(DynamicRelocation {
                place,
                kind: R_X86_64_RELATIVE.0,
                symbol: 0,
                addend: address as i64,
            });
        }
        self.write(place, &address.to_le_bytes())
    }

    /// A pointer to a symbol that only the loader knows.
    pub fn write_imported(&mut self, place: u64, symbol: u32, addend: i64) {
        self.relocations.push(DynamicRelocation {
            place,
            kind: R_X86_64_64.0,
            symbol,
            addend,
        });
    }

    /// A 32-bit distance from `next`, the end of the field's instruction, to `target`.
    pub fn write_distance(&mut self, place: u64, next: u64, target: u64) -> Result<(), Refusal> {
        let distance = target.wrapping_sub(next) as i64;
        let field = i32::try_from(distance).map_err(|_| Refusal::OutOfReach {
            what: format!("{target:#x}"),
        })?;
        self.write(place, &field.to_le_bytes())
    }
}
