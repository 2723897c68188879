//! A code image in libipt's own form, with what libipt has decoded of it so far.
//!
//! libipt keeps what it has decoded of files only: fed by a callback it decodes
//! every instruction each time anew, which is several times slower. So the code is
//! written to a file that has no name and no disk (`memfd_create`), which libipt
//! opens by its descriptor. Where no such file can be made the callback serves
//! alone: slower, and as right.
//!
//! libipt keeps decoded code with its sections for as long as one of them is
//! mapped; its section cache keeps them mapped from one decoder to the next, which
//! counts when a recording has many buffers.

use crate::image::CodeImage;
use ::libipt::{
    error::{PtError, PtErrorCode},
    image::{Image, SectionCache},
};
use nix::sys::memfd::{MFdFlags, memfd_create};
use sketch_model::RuntimeAddress;
use std::{
    cell::Cell,
    fs::File,
    io::{self, Write},
    os::fd::AsRawFd,
    rc::Rc,
};

/// Bytes of sections, and of what was decoded of them (four times their size),
/// that stay mapped between decoders.
const KEPT: u64 = 512 << 20;
/// Sections begin on pages, since libipt maps them.
const PAGE: u64 = 4096;
/// libipt maps no section that begins behind this.
const LAST_OFFSET: u64 = i32::MAX as u64;

/// An image, ready for any number of decoders.
#[derive(Clone)]
pub(crate) struct PreparedImage<'i> {
    code: &'i CodeImage,
    sections: Option<Rc<CachedSections>>,
}

/// The sections of an image in libipt's cache.
struct CachedSections {
    cache: Rc<SectionCache>,
    ids: Vec<u32>,
    /// Open for as long as libipt may open it by its path.
    _file: File,
}

/// A section of the file and the address at which its bytes ran.
struct FileSection {
    offset: u64,
    size: u64,
    address: u64,
}

impl<'i> PreparedImage<'i> {
    pub(crate) fn new(code: &'i CodeImage) -> Self {
        let sections = CachedSections::of(code);
        Self {
            code,
            sections: sections.map(Rc::new),
        }
    }

    /// libipt's image. Where code is missing, `missing` gets its address.
    ///
    /// The image must outlive neither the code nor this.
    pub(super) fn image(&self, missing: &Rc<Cell<u64>>) -> Result<Image, PtError> {
        let mut image = Image::new(None)?;
        if let Some(sections) = &self.sections {
            for id in &sections.ids {
                image.add_cached(Rc::clone(&sections.cache), *id, None)?;
            }
        }
        let (code, missing) = (self.code, Rc::clone(missing));
        // Must not unwind: C calls it. `read` cannot panic.
        image.set_callback(Some(move |buffer: &mut [u8], address: u64, _| {
            match code.read(RuntimeAddress(address), buffer) {
                0 => {
                    missing.set(address);
                    -(PtErrorCode::Nomap as i32)
                }
                // At most the 15 bytes of an instruction are asked for.
                count => count as i32,
            }
        }));
        Ok(image)
    }
}

impl CachedSections {
    /// `None` if libipt cannot have the code as a file.
    fn of(code: &CodeImage) -> Option<Self> {
        let (file, sections) = write(code).ok()?;
        let path = format!("/proc/self/fd/{}", file.as_raw_fd());
        let mut cache = SectionCache::new(None).ok()?;
        cache.set_limit(KEPT).ok()?;
        let ids = sections
            .iter()
            .map(|it| cache.add_file(&path, it.offset, it.size, it.address))
            .collect::<Result<Vec<_>, _>>()
            .ok()?;
        Some(Self {
            cache: Rc::new(cache),
            ids,
            _file: file,
        })
    }
}

/// The code of an image as a file.
fn write(code: &CodeImage) -> io::Result<(File, Vec<FileSection>)> {
    let mut file = File::from(memfd_create(c"failsketch-code", MFdFlags::MFD_CLOEXEC)?);
    let (mut sections, mut offset) = (Vec::new(), 0);
    for (address, bytes) in code.sections() {
        if offset > LAST_OFFSET {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        let size = bytes.len() as u64;
        file.write_all(bytes)?;
        let padding = size.next_multiple_of(PAGE) - size;
        file.write_all(&[0; PAGE as usize][..padding as usize])?;
        sections.push(FileSection {
            offset,
            size,
            address,
        });
        offset += size + padding;
    }
    Ok((file, sections))
}
