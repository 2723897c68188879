//! Files and folders that only their owner can open, and that are whole whatever happens.
//!
//! Records and caches hold what programs computed, stores hold their code and sources,
//! some files hold secrets, and others decide what is executed. So every file that the
//! agent, the server or a command makes for itself has mode 0600 and every folder 0700.
//! The mode is set after a file is made and not only when it is: a umask can take bits
//! away from the mode that a system call asks for, ours included.
//!
//! What replaces a file is written beside it and renamed, so that nobody ever sees half of
//! it. That alone does not survive a crash of the machine: the new name may be on the disk
//! before the bytes are, and the file is then empty. So the bytes are synced first, but
//! where a function says that they are not.
//!
//! Absent: access control lists and other file systems' rights. Whoever sets those up
//! means them. A crate of its own and of the standard library alone, because the agent,
//! which may not link what signs, needs it as much as the server.

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

const FILE: u32 = 0o600;
const FOLDER: u32 = 0o700;
/// What group and others must not have.
const OTHERS: u32 = 0o077;

/// Writes a file that nobody else can open: whatever happens, it is the old one or the
/// new one, whole.
pub fn write_private(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let folder = folder_of(path);
    let beside = Beside::write(folder, bytes)?;
    beside.file.sync_all()?;
    beside.rename(path)?;
    sync_folder(folder)
}

/// The same without waiting for the disk: nobody sees half of it, but after a crash of the
/// machine it may be empty. For what can be made again and is written in every run.
pub fn write_private_unsynced(path: &Path, bytes: &[u8]) -> io::Result<()> {
    Beside::write(folder_of(path), bytes)?.rename(path)
}

/// Writes a private file unless there is one, whole and synced; makes its folder. Who else
/// does so at the same time finds the one that was first. An empty file counts as none: it
/// is what a crash leaves of one that was not synced.
pub fn write_private_once(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let folder = folder_of(path);
    make_private_folder(folder)?;
    let beside = Beside::write(folder, bytes)?;
    beside.file.sync_all()?;
    // Two that find it empty would replace each other's. Where a file system has no locks,
    // only that is lost.
    let locked = File::open(folder)?;
    let _ = locked.lock();
    // A rename would replace what somebody else has just put there.
    match fs::hard_link(&beside.path, path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            let there = fs::symlink_metadata(path)?;
            if there.is_file() && there.len() == 0 {
                beside.rename(path)?;
            }
        }
        linked => linked?,
    }
    sync_folder(folder)
}

/// A file that is not in its place yet; removed unless it gets there.
struct Beside {
    path: PathBuf,
    file: File,
    in_place: bool,
}

impl Beside {
    fn write(folder: &Path, bytes: &[u8]) -> io::Result<Beside> {
        let mut beside = Beside::make(folder)?;
        beside.file.set_permissions(Permissions::from_mode(FILE))?;
        beside.file.write_all(bytes)?;
        Ok(beside)
    }

    fn make(folder: &Path) -> io::Result<Beside> {
        const MOST_TRIES: u32 = 100;
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let mut tried = 0;
        loop {
            // Nobody else's name; should it be, the next one is not.
            let number = NEXT.fetch_add(1, Ordering::Relaxed);
            let since = SystemTime::now().duration_since(UNIX_EPOCH);
            let time = since.map_or(0, |since| since.as_nanos() as u64);
            let process = std::process::id();
            let path = folder.join(format!(".new-{process}-{number}-{time:x}"));
            let made = OpenOptions::new()
                .write(true)
                .create_new(true)
                .mode(FILE)
                .open(&path);
            tried += 1;
            match made {
                Ok(file) => {
                    return Ok(Beside {
                        path,
                        file,
                        in_place: false,
                    });
                }
                Err(error)
                    if error.kind() == io::ErrorKind::AlreadyExists && tried < MOST_TRIES => {}
                Err(error) => return Err(error),
            }
        }
    }

    fn rename(mut self, to: &Path) -> io::Result<()> {
        fs::rename(&self.path, to)?;
        self.in_place = true;
        Ok(())
    }
}

impl Drop for Beside {
    fn drop(&mut self) {
        if !self.in_place {
            // That it cannot be removed says no more than the error that led here.
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// A new name is on the disk only when its folder is.
fn sync_folder(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

/// A private file to write to, empty; one that is there is emptied and keeps its mode.
pub fn create_private(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(FILE)
        .open(path)
}

/// Makes an empty private file where there is none. An existing file is not even
/// opened: closing it would end the locks that SQLite holds on it in this process.
pub fn make_private_file(path: &Path) -> io::Result<()> {
    let made = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(FILE)
        .open(path);
    match made {
        Ok(file) => file.set_permissions(Permissions::from_mode(FILE)),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(error),
    }
}

/// A private file to lock, made where it is missing.
pub fn open_lock_file(path: &Path) -> io::Result<File> {
    make_private_file(path)?;
    OpenOptions::new().write(true).open(path)
}

/// Makes a private folder, and those above it that are missing. An existing folder
/// stays as it is: [`tighten`] is for those that are wholly ours.
pub fn make_private_folder(path: &Path) -> io::Result<()> {
    if path.is_dir() {
        return Ok(());
    }
    let above = folder_of(path);
    if above != path {
        make_private_folder(above)?;
    }
    match DirBuilder::new().mode(FOLDER).create(path) {
        Ok(()) => fs::set_permissions(path, Permissions::from_mode(FOLDER)),
        // Somebody else made it meanwhile.
        Err(_) if path.is_dir() => Ok(()),
        Err(error) => Err(error),
    }
}

/// Takes from others what they may do with a file or folder. Returns whether there
/// was anything to take. What is not there, and what a link only points to, is
/// left alone.
pub fn tighten(path: &Path) -> io::Result<bool> {
    let metadata = match fs::symlink_metadata(path) {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(error),
    };
    let mode = metadata.permissions().mode();
    if metadata.is_symlink() || mode & OTHERS == 0 {
        return Ok(false);
    }
    let kept = mode & 0o7777 & !OTHERS;
    fs::set_permissions(path, Permissions::from_mode(kept))?;
    Ok(true)
}

/// The same for a folder and all files in it, for a folder that is wholly
/// ours. Returns how many were changed.
pub fn tighten_folder(folder: &Path) -> io::Result<usize> {
    let mut changed = usize::from(tighten(folder)?);
    let inside = match fs::read_dir(folder) {
        Ok(inside) => inside,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(changed),
        Err(error) => return Err(error),
    };
    for entry in inside {
        changed += usize::from(tighten(&entry?.path())?);
    }
    Ok(changed)
}

/// Tightens a data folder that an earlier release, or somebody's umask, left open.
/// `names` are the files that we make in it; returns those that were open,
/// the folder included.
pub fn tighten_data(data: &Path, names: &[&str]) -> io::Result<Vec<PathBuf>> {
    // A link to the folder is followed: it is the folder that holds the data.
    let data = fs::canonicalize(data)?;
    let all = std::iter::once(data.clone()).chain(names.iter().map(|name| data.join(name)));
    let mut changed = Vec::new();
    for path in all {
        if tighten(&path)? {
            changed.push(path);
        }
    }
    Ok(changed)
}

fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(above) if above.as_os_str().is_empty() => Path::new("."),
        Some(above) => above,
        None => path,
    }
}
