//! Content-addressed blobs: files named by the SHA-256 of what they hold.
//!
//! Written to a temporary file and renamed, so that a blob is there whole or
//! not at all; verified when read, so that a damaged disk is noticed here and
//! not in a sketch. Writing what is already there costs one verification, and
//! repairs an entry that was truncated.

use std::path::{Path, PathBuf};

use private_files::{make_private_folder, write_private};
use sha2::{Digest, Sha256};

use crate::error::StoreError;
use crate::manifest::BlobId;

pub struct Blobs {
    folder: PathBuf,
}

impl Blobs {
    pub fn new(folder: PathBuf) -> Self {
        Blobs { folder }
    }

    fn path(&self, id: &BlobId) -> PathBuf {
        self.folder.join(&id.0)
    }

    pub fn put(&self, bytes: &[u8]) -> Result<BlobId, StoreError> {
        let id = hash(bytes);
        let path = self.path(&id);
        let is_there = std::fs::read(&path).is_ok_and(|existing| existing == bytes);
        if !is_there {
            write_whole(&path, bytes)?;
        }
        Ok(id)
    }

    pub fn get(&self, id: &BlobId) -> Result<Vec<u8>, StoreError> {
        let entry = self.path(id);
        match std::fs::read(&entry) {
            Ok(bytes) if hash(&bytes) == *id => Ok(bytes),
            Ok(_) => Err(StoreError::Damaged { entry }),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                Err(StoreError::Damaged { entry })
            }
            Err(source) => Err(StoreError::Io {
                path: entry,
                action: "read",
                source,
            }),
        }
    }
}

pub fn hash(bytes: &[u8]) -> BlobId {
    BlobId(hex::encode(Sha256::digest(bytes)))
}

/// Writes a file that is never seen in part and that only its owner can read, as are
/// folders that are made for it: a store holds the program's sources.
pub fn write_whole(path: &Path, bytes: &[u8]) -> Result<(), StoreError> {
    let folder = path.parent().unwrap_or(Path::new("."));
    make_private_folder(folder)
        .and_then(|()| write_private(path, bytes))
        .map_err(|source| StoreError::Io {
            path: path.to_path_buf(),
            action: "written",
            source,
        })
}
