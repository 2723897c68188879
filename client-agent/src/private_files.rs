//! Everything that the agent puts on a disk: for its user alone, and whole.
//!
//! Records, patches, accounts and the privacy secret hold what programs computed or
//! decide what is executed. So files have mode 0600 and folders 0700, whatever the
//! umask says, and every file of the agent is made here or in the spool
//! (`delivery/spool/disk.rs`). The daemon's socket is the one thing that others may reach, and
//! its folder (`daemon/mod.rs`).

use crate::{error::AgentError, process::sys};
use std::{
    fs::{self, DirBuilder, File, OpenOptions},
    io::{self, Write},
    os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
};

/// Makes a folder and those above it; one that is there stays as it is.
pub fn create_folder(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)
}

/// The other user who decides what lies in a folder, if there is one: who owns it, or the
/// link that stands for it. Root is no other user.
pub fn foreign_owner(folder: &Path) -> Option<u32> {
    let looks = [fs::symlink_metadata(folder), fs::metadata(folder)];
    let owners = looks.iter().flatten().map(MetadataExt::uid);
    let own = sys::user_id();
    owners.into_iter().find(|owner| ![own, 0].contains(owner))
}

/// An empty file to write to; one that is there keeps its mode.
pub fn create(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(path)
}

/// Writes beside the target and renames, so that nobody ever sees half a file.
pub fn write_whole(path: &Path, bytes: &[u8]) -> Result<(), AgentError> {
    let written = with_temporary(path, bytes, |temporary| fs::rename(temporary, path));
    written.map_err(|reason| AgentError::File {
        action: "write",
        path: path.to_path_buf(),
        reason,
    })
}

/// Writes a file, whole, unless there is one; makes its folder.
pub fn write_new(path: &Path, bytes: &[u8]) -> io::Result<()> {
    if let Some(folder) = path.parent() {
        create_folder(folder)?;
    }
    // A rename would replace what somebody else has just put there.
    with_temporary(path, bytes, |temporary| {
        // An empty file after a crash would stand in the way of a whole one for ever.
        File::open(temporary)?.sync_all()?;
        let linked = fs::hard_link(temporary, path);
        fs::remove_file(temporary)?;
        match linked {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            linked => linked,
        }
    })
}

/// Nothing half-written stays, whatever fails.
fn with_temporary(
    path: &Path,
    bytes: &[u8],
    finish: impl FnOnce(&Path) -> io::Result<()>,
) -> io::Result<()> {
    let temporary: PathBuf = path.with_extension(format!("{:016x}.tmp", sys::random_u64()?));
    let done = create(&temporary)
        .and_then(|mut file| file.write_all(bytes))
        .and_then(|()| finish(&temporary));
    if done.is_err() {
        // That it cannot be removed either says no more than the error itself.
        let _ = fs::remove_file(&temporary);
    }
    done
}
