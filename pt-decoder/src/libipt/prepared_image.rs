//! A code image in libipt's own form, with what libipt has decoded of it so far.
//!
//! libipt keeps decoded code with its sections for as long as one of them is
//! mapped; its section cache keeps them mapped from one decoder to the next.
//! That is most of its speed when a recording has many buffers.

use crate::image::CodeImage;
use ::libipt::{
    error::{PtError, PtErrorCode},
    image::{Image, SectionCache},
};
use sketch_model::RuntimeAddress;
use std::{cell::Cell, rc::Rc};

/// Bytes of sections, and of what was decoded of them (four times their size),
/// that stay mapped between decoders.
const KEPT: u64 = 512 << 20;

/// An image, ready for any number of decoders.
pub(crate) struct PreparedImage<'i> {
    code: &'i CodeImage,
    sections: Option<(Rc<SectionCache>, Vec<u32>)>,
}

impl<'i> PreparedImage<'i> {
    pub(crate) fn new(code: &'i CodeImage) -> Self {
        Self {
            code,
            sections: sections(code),
        }
    }

    /// libipt's image. Where code is missing, `missing` gets its address.
    ///
    /// The image must not outlive the code.
    pub(super) fn image(&self, missing: &Rc<Cell<u64>>) -> Result<Image, PtError> {
        let mut image = Image::new(None)?;
        if let Some((cache, ids)) = &self.sections {
            for id in ids {
                image.add_cached(Rc::clone(cache), *id, None)?;
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

/// `None` if libipt cannot have the code as a file; the callback serves then.
fn sections(code: &CodeImage) -> Option<(Rc<SectionCache>, Vec<u32>)> {
    let file = code.file()?;
    let path = file.path();
    let mut cache = SectionCache::new(None).ok()?;
    cache.set_limit(KEPT).ok()?;
    let ids = file
        .sections
        .iter()
        .map(|it| cache.add_file(&path, it.offset, it.size, it.address))
        .collect::<Result<Vec<_>, _>>()
        .ok()?;
    Some((Rc::new(cache), ids))
}
