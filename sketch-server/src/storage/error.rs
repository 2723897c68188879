//! What can go wrong with the server's memory, and what to do about it.

#[derive(Debug, thiserror::Error)]
pub enum StorageError {
    #[error(
        "the database could not {doing}: {source}; check that it can be reached and has room left"
    )]
    Database {
        doing: &'static str,
        source: sqlx::Error,
    },
    /// Another server was first. What was read must be read again.
    #[error("another server changed the same {what} meanwhile; try again")]
    Conflict { what: &'static str },
    #[error("the run could not be added: {why}; send it again")]
    NotAdded { why: String },
    #[error(
        "the database {database} has schema version {found}, and this release knows versions up \
         to {known}; start the newer release that wrote it, or choose another database"
    )]
    Newer {
        database: String,
        found: i64,
        known: i64,
    },
    #[error(
        "'{given}' names no database; give postgres://USER@HOST:PORT/NAME, or leave the option \
         out for the one in the data folder"
    )]
    UnknownDatabase { given: String },
    #[error("the stored {what} {id} cannot be read: {source}; it was damaged or edited")]
    Damaged {
        what: &'static str,
        id: String,
        source: serde_json::Error,
    },
    #[error("cannot {doing} {path}: {source}; check the rights and space of the data folder")]
    File {
        doing: &'static str,
        path: std::path::PathBuf,
        source: std::io::Error,
    },
    #[error("'{given}' is no place for blobs; give a folder or s3://BUCKET/PREFIX")]
    UnknownBlobs { given: String },
    #[error("the blobs in {place} cannot be used: {source}; check the address and the rights")]
    BlobsUnusable {
        place: String,
        source: Box<object_store::Error>,
    },
    #[error("the blob {blob} could not {doing}: {source}; check that its store can be reached")]
    Blob {
        doing: &'static str,
        blob: String,
        source: Box<object_store::Error>,
    },
    #[error(
        "the blob {blob} is not there; it was removed, or the server does not use the blobs of its \
         database"
    )]
    BlobMissing { blob: String },
    #[error(
        "the blob {blob} does not have the contents its name promises; it was damaged or edited"
    )]
    BlobDamaged { blob: String },
}

impl StorageError {
    pub fn is_conflict(&self) -> bool {
        matches!(self, StorageError::Conflict { .. })
    }

    /// A blob that no waiting brings back.
    pub fn is_lost_blob(&self) -> bool {
        matches!(
            self,
            StorageError::BlobMissing { .. } | StorageError::BlobDamaged { .. }
        )
    }
}
