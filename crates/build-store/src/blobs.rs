//! Content-addressed blobs: files named by the SHA-256 of what they hold.
//!
//! Written to a temporary file and renamed, so that a blob is there whole or
//! not at all; verified when read, so that a damaged disk is noticed here and
//! not in a sketch. Writing what is already there costs one verification, and
//! repairs an entry that was truncated.

use std::io::Write;
use std::path::{Path, PathBuf};

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

/// Writes a file beside its final place and renames it, so that it is never seen in part.
/// It can be read by its owner alone, and so can folders that are made for it: a store
/// holds the program's sources.
pub fn write_whole(path: &Path, bytes: &[u8]) -> Result<(), StoreError> {
    use std::os::unix::fs::{DirBuilderExt, PermissionsExt};

    let folder = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let failed = |source| StoreError::Io {
        path: path.to_path_buf(),
        action: "written",
        source,
    };
    let mut private = std::fs::DirBuilder::new();
    private.recursive(true).mode(0o700);
    private.create(folder).map_err(failed)?;
    let mut file = tempfile::Builder::new()
        .permissions(std::fs::Permissions::from_mode(0o600))
        .tempfile_in(folder)
        .map_err(failed)?;
    file.write_all(bytes).map_err(failed)?;
    file.as_file().sync_all().map_err(failed)?;
    file.persist(path).map_err(|error| failed(error.error))?;
    Ok(())
}
