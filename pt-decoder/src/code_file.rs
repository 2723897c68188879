//! The code of an image as a file, because libipt keeps what it has decoded of
//! files only: fed by a callback it decodes every instruction each time anew,
//! which is several times slower.
//!
//! The file has no name and no disk (`memfd_create`); libipt opens it by its
//! descriptor. Sections begin on pages, since libipt maps them. Where no such
//! file can be made the callback serves alone: slow, and as right.

use nix::sys::memfd::{MFdFlags, memfd_create};
use std::{
    collections::BTreeMap,
    fs::File,
    io::{self, Write},
    os::fd::{AsRawFd, OwnedFd},
    sync::Arc,
};

const PAGE: u64 = 4096;
/// libipt maps no section that begins behind this.
const LAST_OFFSET: u64 = i32::MAX as u64;

/// A section of the file and the address at which its bytes ran.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FileSection {
    pub(crate) offset: u64,
    pub(crate) size: u64,
    pub(crate) address: u64,
}

/// All sections of an image.
#[derive(Debug)]
pub(crate) struct CodeFile {
    /// Open for as long as libipt may open it by its path.
    descriptor: OwnedFd,
    pub(crate) sections: Vec<FileSection>,
}

impl CodeFile {
    pub(crate) fn write(code: &BTreeMap<u64, Arc<[u8]>>) -> io::Result<Self> {
        let mut file = File::from(memfd_create(c"failsketch-code", MFdFlags::MFD_CLOEXEC)?);
        let (mut sections, mut offset) = (Vec::new(), 0);
        for (address, bytes) in code {
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
                address: *address,
            });
            offset += size + padding;
        }
        Ok(Self {
            descriptor: file.into(),
            sections,
        })
    }

    pub(crate) fn path(&self) -> String {
        format!("/proc/self/fd/{}", self.descriptor.as_raw_fd())
    }
}
