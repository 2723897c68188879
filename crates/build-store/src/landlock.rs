//! Landlock: which files a process and its children may open, start or change.
//!
//! Three system calls (Linux 5.13, `Documentation/userspace-api/landlock.rst`),
//! made here directly: the ruleset is needed as a descriptor that a child takes on
//! between `fork` and `exec`, where nothing may be allocated. Whatever is not
//! allowed by a rule is refused; rights that a kernel does not know yet it cannot
//! refuse, and `syscall_filter.rs` closes those that matter.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

const EXECUTE: u64 = 1 << 0;
const WRITE_FILE: u64 = 1 << 1;
const READ_FILE: u64 = 1 << 2;
const READ_DIR: u64 = 1 << 3;
const REMOVE_DIR: u64 = 1 << 4;
const REMOVE_FILE: u64 = 1 << 5;
const MAKE_DIR: u64 = 1 << 7;
const MAKE_REG: u64 = 1 << 8;
const TRUNCATE: u64 = 1 << 14;
/// All rights of the first version; later versions add one or two bits each.
const RIGHTS_OF_VERSION_1: u64 = (1 << 13) - 1;
/// Rights that exist for a file; the others exist for folders only.
const RIGHTS_OF_FILES: u64 = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE;

/// TCP: bind and connect.
const NETWORK: u64 = 0b11;
/// Abstract sockets and signals to processes outside.
const SCOPES: u64 = 0b11;

#[repr(C)]
struct RulesetAttributes {
    files: u64,
    network: u64,
    scoped: u64,
}

#[repr(C, packed)]
struct BelowPath {
    allowed: u64,
    parent: i32,
}

/// What may be done with a path, and with all below it if it is a folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    Read,
    /// A program, with the right to read it.
    Start,
    /// A device such as `/dev/null`.
    ReadWrite,
    /// A folder whose files may be made, changed and removed.
    Change,
}

impl Access {
    fn rights(self) -> u64 {
        match self {
            Access::Read => READ_FILE | READ_DIR,
            Access::Start => READ_FILE | EXECUTE,
            Access::ReadWrite => READ_FILE | WRITE_FILE | TRUNCATE,
            Access::Change => {
                let files = READ_FILE | READ_DIR | WRITE_FILE | TRUNCATE;
                files | REMOVE_FILE | REMOVE_DIR | MAKE_DIR | MAKE_REG
            }
        }
    }
}

/// The version of Landlock that this kernel offers.
pub fn version() -> io::Result<u32> {
    const VERSION: u32 = 1;
    // SAFETY: with this flag the call takes no memory of ours and returns a number.
    let version = unsafe {
        libc::syscall(
            libc::SYS_landlock_create_ruleset,
            std::ptr::null::<u8>(),
            0usize,
            VERSION,
        )
    };
    u32::try_from(version).map_err(|_| io::Error::last_os_error())
}

/// Rules in the making.
pub struct Ruleset {
    descriptor: OwnedFd,
    handled: u64,
}

impl Ruleset {
    /// Rules that allow nothing.
    pub fn new() -> io::Result<Self> {
        let version = version()?;
        let (added, size) = match version {
            0 | 1 => (0, 8),
            2 => (1, 8),
            3 => (2, 8),
            4 => (2, 16),
            5 => (3, 16),
            _ => (3, 24),
        };
        let handled = ((RIGHTS_OF_VERSION_1 + 1) << added) - 1;
        let attributes = RulesetAttributes {
            files: handled,
            network: NETWORK,
            scoped: SCOPES,
        };
        // SAFETY: the kernel reads `size` bytes of a structure that has as many or more.
        let descriptor = unsafe {
            libc::syscall(
                libc::SYS_landlock_create_ruleset,
                &raw const attributes,
                size as usize,
                0u32,
            )
        };
        let descriptor = RawFd::try_from(descriptor).unwrap_or(-1);
        if descriptor < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(Ruleset {
            // SAFETY: the kernel has just made this descriptor, for us alone.
            descriptor: unsafe { OwnedFd::from_raw_fd(descriptor) },
            handled,
        })
    }

    /// Allows `access` to `path`. A path that does not exist needs no rule.
    pub fn allow(&self, path: &Path, access: Access) -> io::Result<()> {
        let name = CString::new(path.as_os_str().as_bytes())?;
        // SAFETY: the name ends in NUL and outlives the call.
        let opened = unsafe { libc::open(name.as_ptr(), libc::O_PATH | libc::O_CLOEXEC) };
        if opened < 0 {
            let error = io::Error::last_os_error();
            return match error.kind() {
                io::ErrorKind::NotFound => Ok(()),
                _ => Err(error),
            };
        }
        // SAFETY: the descriptor was just opened, for us alone.
        let opened = unsafe { OwnedFd::from_raw_fd(opened) };
        let mut allowed = access.rights() & self.handled;
        if !path.is_dir() {
            allowed &= RIGHTS_OF_FILES;
        }
        let rule = BelowPath {
            allowed,
            parent: opened.as_raw_fd(),
        };
        const BELOW_PATH: u32 = 1;
        // SAFETY: both descriptors are open, and the rule is of the kind that is named.
        let added = unsafe {
            libc::syscall(
                libc::SYS_landlock_add_rule,
                self.descriptor.as_raw_fd(),
                BELOW_PATH,
                &raw const rule,
                0u32,
            )
        };
        if added == 0 {
            Ok(())
        } else {
            Err(io::Error::last_os_error())
        }
    }

    /// Makes the rules hold for the calling thread and what it starts. Allocates nothing.
    pub fn enter(&self) -> io::Result<()> {
        // SAFETY: the descriptor is open, and the call takes nothing else.
        let entered = unsafe {
            libc::syscall(
                libc::SYS_landlock_restrict_self,
                self.descriptor.as_raw_fd(),
                0u32,
            )
        };
        if entered == 0 {
            Ok(())
        } else {
            Err(io::Error::last_os_error())
        }
    }
}
