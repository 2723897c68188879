//! Large files of the server, named by the SHA-256 of their contents.
//!
//! Tracked builds and patches are megabytes; in the database they would only
//! make its pages and its backups large. They lie in a folder, or in anything that
//! speaks the protocol of S3 where several servers share them. Either way a name
//! never stands for half a file (crates/private-files for a folder's), and in a folder
//! nobody but the server's user can open it. A blob is checked against its name when
//! read.
//!
//! All calls block; they are made from threads that may. Absent: removal. A late
//! run of an old tracked build is still read with that build's debug info.

use super::StorageError;
use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey};
use object_store::path::Path as Key;
use object_store::prefix::PrefixStore;
use object_store::{ObjectStore, ObjectStoreExt, PutPayload};
use server_files::private_files::{make_private_folder, write_private};
use sha2::{Digest, Sha256};
use sketch_model::BlobId;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;
use tokio::runtime::Handle;

/// Where blobs are kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BlobPlace {
    Folder(PathBuf),
    /// Who may use it and where it is, the environment says (`AWS_…`).
    S3 {
        bucket: String,
        prefix: String,
    },
}

impl FromStr for BlobPlace {
    type Err = StorageError;

    fn from_str(given: &str) -> Result<BlobPlace, StorageError> {
        let Some(rest) = given.strip_prefix("s3://") else {
            if given.is_empty() || given.contains("://") {
                let given = given.to_owned();
                return Err(StorageError::UnknownBlobs { given });
            }
            return Ok(BlobPlace::Folder(given.into()));
        };
        let (bucket, prefix) = rest.split_once('/').unwrap_or((rest, ""));
        if bucket.is_empty() {
            let given = given.to_owned();
            return Err(StorageError::UnknownBlobs { given });
        }
        Ok(BlobPlace::S3 {
            bucket: bucket.to_owned(),
            prefix: prefix.to_owned(),
        })
    }
}

/// The blobs of a server.
#[derive(Debug)]
pub enum Blobs {
    Folder(PathBuf),
    Remote {
        store: Arc<dyn ObjectStore>,
        runtime: Handle,
    },
}

impl Blobs {
    /// Opens a place for blobs; a folder is made where it is missing. To be called
    /// inside a runtime, for S3.
    pub fn open(place: &BlobPlace) -> Result<Blobs, StorageError> {
        let environment = std::env::vars_os();
        let text = |text: std::ffi::OsString| text.into_string().ok();
        let environment = environment.filter_map(|(n, v)| Some((text(n)?, text(v)?)));
        Blobs::open_with(place, environment)
    }

    /// The same with another environment.
    pub fn open_with(
        place: &BlobPlace,
        environment: impl IntoIterator<Item = (String, String)>,
    ) -> Result<Blobs, StorageError> {
        Ok(match place {
            BlobPlace::Folder(folder) => {
                make_private_folder(folder).map_err(|source| StorageError::File {
                    doing: "create",
                    path: folder.clone(),
                    source,
                })?;
                Blobs::Folder(folder.clone())
            }
            BlobPlace::S3 { bucket, prefix } => Blobs::Remote {
                store: s3_store(bucket, prefix, environment)?,
                runtime: Handle::current(),
            },
        })
    }

    pub fn put(&self, bytes: &[u8]) -> Result<BlobId, StorageError> {
        let id = BlobId(hex::encode(Sha256::digest(bytes)));
        match self {
            Blobs::Folder(folder) => put_file(&folder.join(&id.0), bytes)?,
            Blobs::Remote { store, runtime } => {
                let key = Key::from(id.0.as_str());
                let put = runtime.block_on(put_object(store, &key, bytes));
                put.map_err(failing_to("be written", &id))?;
            }
        }
        Ok(id)
    }

    pub fn get(&self, id: &BlobId) -> Result<Vec<u8>, StorageError> {
        let bytes = match self {
            Blobs::Folder(folder) => get_file(folder, id)?,
            Blobs::Remote { store, runtime } => {
                let key = Key::from(id.0.as_str());
                let read = runtime.block_on(async { store.get(&key).await?.bytes().await });
                read.map_err(failing_to("be read", id))?.into()
            }
        };
        if hex::encode(Sha256::digest(&bytes)) != id.0 {
            return Err(StorageError::BlobDamaged { blob: id.0.clone() });
        }
        Ok(bytes)
    }
}

fn put_file(path: &Path, bytes: &[u8]) -> Result<(), StorageError> {
    let written = match path.try_exists() {
        Ok(true) => Ok(()),
        Ok(false) => write_private(path, bytes),
        Err(error) => Err(error),
    };
    written.map_err(|source| StorageError::File {
        doing: "write",
        path: path.to_owned(),
        source,
    })
}

fn get_file(folder: &Path, id: &BlobId) -> Result<Vec<u8>, StorageError> {
    // A name that no blob can have must not lead out of the folder.
    let is_name = id.0.len() == 64 && id.0.bytes().all(|b| b.is_ascii_hexdigit());
    let missing = || StorageError::BlobMissing { blob: id.0.clone() };
    if !is_name {
        return Err(missing());
    }
    let path = folder.join(&id.0);
    fs::read(&path).map_err(|source| match source.kind() {
        io::ErrorKind::NotFound => missing(),
        _ => StorageError::File {
            doing: "read",
            path,
            source,
        },
    })
}

async fn put_object(
    store: &Arc<dyn ObjectStore>,
    key: &Key,
    bytes: &[u8],
) -> Result<(), object_store::Error> {
    match store.head(key).await {
        Ok(_) => return Ok(()),
        Err(object_store::Error::NotFound { .. }) => {}
        Err(error) => return Err(error),
    }
    let payload = PutPayload::from(bytes.to_vec());
    store.put(key, payload).await.map(|_| ())
}

fn s3_store(
    bucket: &str,
    prefix: &str,
    environment: impl IntoIterator<Item = (String, String)>,
) -> Result<Arc<dyn ObjectStore>, StorageError> {
    // Fails only if there is one already.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let mut builder = AmazonS3Builder::new();
    for (name, value) in environment {
        let name = name.to_ascii_lowercase();
        // What it does not know is for other programs.
        if let (true, Ok(key)) = (name.starts_with("aws_"), name.parse::<AmazonS3ConfigKey>()) {
            builder = builder.with_config(key, value);
        }
    }
    let store = builder.with_bucket_name(bucket).build();
    let store = store.map_err(|source| unusable(&format!("s3://{bucket}"), source))?;
    Ok(Arc::new(PrefixStore::new(store, prefix)))
}

fn unusable(place: &dyn std::fmt::Display, source: object_store::Error) -> StorageError {
    StorageError::BlobsUnusable {
        place: place.to_string(),
        source: Box::new(source),
    }
}

fn failing_to(
    doing: &'static str,
    id: &BlobId,
) -> impl Fn(object_store::Error) -> StorageError + use<> {
    let blob = id.0.clone();
    move |source| match source {
        object_store::Error::NotFound { .. } => StorageError::BlobMissing { blob: blob.clone() },
        source => StorageError::Blob {
            doing,
            blob: blob.clone(),
            source: Box::new(source),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn inside<T>(test: impl FnOnce(&Path) -> T) -> T {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let _inside = runtime.enter();
        test(tempfile::tempdir().unwrap().path())
    }

    fn open(folder: &Path) -> Blobs {
        Blobs::open(&BlobPlace::Folder(folder.to_owned())).unwrap()
    }

    #[test]
    fn a_blob_reads_back_and_is_kept_once() {
        inside(|folder| {
            let blobs = open(folder);
            let id = blobs.put(b"tracked build").unwrap();
            assert_eq!(blobs.put(b"tracked build").unwrap(), id);
            assert_eq!(blobs.get(&id).unwrap(), b"tracked build");
            // Under its name, as earlier releases kept it.
            let names: Vec<_> = fs::read_dir(folder).unwrap().collect();
            assert_eq!(names.len(), 1);
            assert_eq!(fs::read(folder.join(&id.0)).unwrap(), b"tracked build");
        });
    }

    #[test]
    fn nobody_else_opens_a_blob_or_their_folder() {
        inside(|folder| {
            let folder = folder.join("blobs");
            let id = open(&folder).put(b"tracked build").unwrap();
            let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
            assert_eq!(mode(&folder), 0o700);
            assert_eq!(mode(&folder.join(&id.0)), 0o600);
        });
    }

    #[test]
    fn a_name_that_no_blob_has_leads_nowhere() {
        inside(|folder| {
            fs::write(folder.join("secret"), "s").unwrap();
            let blobs = open(&folder.join("blobs"));
            for name in ["", ".", "../secret", "/etc/passwd"] {
                let missing = blobs.get(&BlobId(name.into())).unwrap_err();
                assert!(
                    matches!(missing, StorageError::BlobMissing { .. }),
                    "{name}"
                );
            }
        });
    }

    #[test]
    fn a_damaged_blob_is_refused_and_a_missing_one_is_told_from_it() {
        inside(|folder| {
            let blobs = open(folder);
            let id = blobs.put(b"tracked build").unwrap();
            fs::write(folder.join(&id.0), b"tracked buil").unwrap();
            let damaged = blobs.get(&id).unwrap_err();
            assert!(matches!(damaged, StorageError::BlobDamaged { .. }));
            fs::remove_file(folder.join(&id.0)).unwrap();
            let missing = blobs.get(&id).unwrap_err();
            assert!(matches!(missing, StorageError::BlobMissing { .. }));
        });
    }

    #[test]
    fn places_are_folders_or_buckets() {
        let s3 = |bucket: &str, prefix: &str| BlobPlace::S3 {
            bucket: bucket.into(),
            prefix: prefix.into(),
        };
        assert_eq!("s3://b".parse::<BlobPlace>().unwrap(), s3("b", ""));
        assert_eq!("s3://b/x/y".parse::<BlobPlace>().unwrap(), s3("b", "x/y"));
        assert_eq!(
            "/srv/blobs".parse::<BlobPlace>().unwrap(),
            BlobPlace::Folder("/srv/blobs".into())
        );
        for bad in ["", "s3://", "ftp://x"] {
            assert!(bad.parse::<BlobPlace>().is_err(), "{bad}");
        }
    }
}
