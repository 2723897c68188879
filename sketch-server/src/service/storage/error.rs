//! What can go wrong with the server's memory, and what to do about it.

use std::path::PathBuf;

#[derive(Debug, thiserror::Error)]
pub enum StorageError {
    #[error("the database could not {doing}: {source}; check the disk of the data folder")]
    Database {
        doing: &'static str,
        source: sqlx::Error,
    },
    #[error(
        "the database {path} has schema version {found}, and this release knows versions up to \
         {known}; start the newer release that wrote it, or choose another data folder"
    )]
    Newer {
        path: PathBuf,
        found: i64,
        known: i64,
    },
    #[error("the stored {what} {id} does not read back: {source}; it was damaged or edited")]
    Damaged {
        what: &'static str,
        id: String,
        source: serde_json::Error,
    },
    #[error("cannot {doing} {path}: {source}; check the rights and space of the data folder")]
    File {
        doing: &'static str,
        path: PathBuf,
        source: std::io::Error,
    },
    #[error(
        "the blob {path} does not have the contents its name promises; it was damaged or edited"
    )]
    BlobDamaged { path: PathBuf },
}
