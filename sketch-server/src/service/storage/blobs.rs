//! Large files of the server, named by the SHA-256 of their contents.
//!
//! Tracked builds and patches are megabytes; in the database they would only
//! make its pages and its backups large. A blob is written beside its place,
//! synced and renamed, so that a name never stands for half a file, and is
//! checked against its name when read. Absent: removal, which comes with
//! retention.

use super::StorageError;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// The SHA-256 of a blob, in lower-case hex.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct BlobId(pub String);

/// The blob folder.
#[derive(Debug)]
pub struct Blobs {
    folder: PathBuf,
    /// Keeps the temporary names of this process apart.
    written: AtomicU64,
}

impl Blobs {
    pub fn open(folder: &Path) -> Result<Blobs, StorageError> {
        fs::create_dir_all(folder).map_err(|e| file("create", folder, e))?;
        Ok(Blobs {
            folder: folder.to_owned(),
            written: AtomicU64::new(0),
        })
    }

    pub fn put(&self, bytes: &[u8]) -> Result<BlobId, StorageError> {
        let id = BlobId(hex::encode(Sha256::digest(bytes)));
        let place = self.folder.join(&id.0);
        if place.exists() {
            return Ok(id);
        }
        let count = self.written.fetch_add(1, Ordering::Relaxed);
        let beside = self
            .folder
            .join(format!(".{}.{}.{count}", id.0, std::process::id()));
        let written = File::create(&beside)
            .and_then(|mut f| f.write_all(bytes).and_then(|()| f.sync_all()))
            .and_then(|()| fs::rename(&beside, &place))
            .and_then(|()| File::open(&self.folder)?.sync_all());
        if let Err(error) = written {
            // The temporary file is worthless now; its removal may fail as well.
            let _ = fs::remove_file(&beside);
            return Err(file("write", &place, error));
        }
        Ok(id)
    }

    pub fn get(&self, id: &BlobId) -> Result<Vec<u8>, StorageError> {
        let place = self.folder.join(&id.0);
        let bytes = fs::read(&place).map_err(|e| file("read", &place, e))?;
        if hex::encode(Sha256::digest(&bytes)) != id.0 {
            return Err(StorageError::BlobDamaged { path: place });
        }
        Ok(bytes)
    }
}

fn file(doing: &'static str, path: &Path, source: std::io::Error) -> StorageError {
    StorageError::File {
        doing,
        path: path.to_owned(),
        source,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_blob_reads_back_and_is_kept_once() {
        let folder = tempfile::tempdir().unwrap();
        let blobs = Blobs::open(folder.path()).unwrap();
        let id = blobs.put(b"tracked build").unwrap();
        assert_eq!(blobs.put(b"tracked build").unwrap(), id);
        assert_eq!(blobs.get(&id).unwrap(), b"tracked build");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_damaged_blob_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let blobs = Blobs::open(folder.path()).unwrap();
        let id = blobs.put(b"tracked build").unwrap();
        fs::write(folder.path().join(&id.0), b"tracked buil").unwrap();
        assert!(matches!(
            blobs.get(&id),
            Err(StorageError::BlobDamaged { .. })
        ));
    }
}
