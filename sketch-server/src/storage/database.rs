//! Which database a server uses, as its operator names it.

use super::{Storage, StorageError, postgres};
use std::path::Path;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

/// Where a server keeps what it knows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Database {
    /// A SQLite file in the data folder.
    #[default]
    Embedded,
    /// A PostgreSQL, which other servers may use too.
    Postgres {
        url: String,
        /// How long a server may be silent before others take over its work.
        lease: Duration,
    },
}

impl FromStr for Database {
    type Err = StorageError;

    fn from_str(given: &str) -> Result<Database, StorageError> {
        let known = ["postgres://", "postgresql://"];
        if known.iter().any(|scheme| given.starts_with(scheme)) {
            return Ok(Database::Postgres {
                url: given.to_owned(),
                lease: postgres::LEASE,
            });
        }
        Err(StorageError::UnknownDatabase {
            given: given.to_owned(),
        })
    }
}

impl Database {
    /// Opens the database, making or upgrading it where needed.
    pub async fn open(&self, data: &Path) -> Result<Arc<Storage>, StorageError> {
        let storage = match self {
            Database::Embedded => Storage::open_sqlite(&data.join("failsketch.sqlite")).await?,
            Database::Postgres { url, lease } => Storage::open_postgres(url, *lease).await?,
        };
        Ok(Arc::new(storage))
    }
}
