//! The few things the spool asks of a file system, as a trait, so that a test
//! can pull the plug between any two of them.
//!
//! A segment is a file that only grows and is then removed as a whole. That is
//! all a spool needs, and all that file systems promise in common.

use private_files::make_private_folder;
use std::{
    collections::HashMap,
    fs::{self, File, OpenOptions, TryLockError},
    io::{self, Write},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

/// A folder of growing files.
pub trait Disk {
    /// Makes an empty segment that is there after a crash.
    fn create(&mut self, name: &str) -> io::Result<()>;
    fn append(&mut self, name: &str, bytes: &[u8]) -> io::Result<()>;
    /// What was appended so far is there after a crash.
    fn sync(&mut self, name: &str) -> io::Result<()>;
    fn remove(&mut self, name: &str) -> io::Result<()>;
    fn read(&mut self, name: &str) -> io::Result<Vec<u8>>;
    /// All segments with their sizes, oldest first.
    fn list(&mut self) -> io::Result<Vec<(String, u64)>>;
    /// Takes a segment that no other process is using; false if one is.
    fn claim(&mut self, name: &str) -> io::Result<bool>;
    /// Lets others claim it.
    fn release(&mut self, name: &str);
}

/// A real folder. A segment's writer and reader hold a lock on it, so that
/// several agents can share one spool and a dead one's segments are taken over.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
    open: HashMap<String, File>,
}

impl Folder {
    pub fn open(path: &Path) -> io::Result<Folder> {
        make_private_folder(path)?;
        Ok(Folder {
            path: path.to_owned(),
            open: HashMap::new(),
        })
    }

    fn segment(&self, name: &str) -> io::Result<&File> {
        self.open
            .get(name)
            .ok_or_else(|| io::Error::other(format!("segment {name} is not open")))
    }
}

impl Disk for Folder {
    fn create(&mut self, name: &str) -> io::Result<()> {
        let file = OpenOptions::new()
            .append(true)
            .create_new(true)
            .mode(0o600)
            .open(self.path.join(name))?;
        file.lock()?;
        File::open(&self.path)?.sync_all()?;
        self.open.insert(name.to_owned(), file);
        Ok(())
    }

    fn append(&mut self, name: &str, bytes: &[u8]) -> io::Result<()> {
        self.segment(name)?.write_all(bytes)
    }

    fn sync(&mut self, name: &str) -> io::Result<()> {
        self.segment(name)?.sync_data()
    }

    fn remove(&mut self, name: &str) -> io::Result<()> {
        let removed = fs::remove_file(self.path.join(name));
        self.open.remove(name);
        removed
    }

    fn read(&mut self, name: &str) -> io::Result<Vec<u8>> {
        fs::read(self.path.join(name))
    }

    fn list(&mut self) -> io::Result<Vec<(String, u64)>> {
        let mut segments = Vec::new();
        for entry in fs::read_dir(&self.path)? {
            let entry = entry?;
            let Ok(name) = entry.file_name().into_string() else {
                continue;
            };
            // Another agent may have removed it meanwhile.
            if let Ok(about) = entry.metadata()
                && about.is_file()
                && name.ends_with(crate::delivery::spool::SUFFIX)
            {
                segments.push((name, about.len()));
            }
        }
        segments.sort_unstable();
        Ok(segments)
    }

    fn claim(&mut self, name: &str) -> io::Result<bool> {
        if self.open.contains_key(name) {
            return Ok(true);
        }
        let file = match OpenOptions::new().append(true).open(self.path.join(name)) {
            // Another agent has sent it meanwhile.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            opened => opened?,
        };
        match file.try_lock() {
            Ok(()) => {
                self.open.insert(name.to_owned(), file);
                Ok(true)
            }
            Err(TryLockError::WouldBlock) => Ok(false),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }

    fn release(&mut self, name: &str) {
        self.open.remove(name);
    }
}
