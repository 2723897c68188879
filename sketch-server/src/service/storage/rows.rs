//! From database rows to values and back.
//!
//! Run records are most of what the database holds, and as JSON they repeat
//! themselves: deflated at the fastest level they take a tenth of the space.

use super::{Arrival, StorageError, StoredRun};
use crate::service::campaign::Campaign;
use flate2::Compression;
use flate2::read::DeflateDecoder;
use flate2::write::DeflateEncoder;
use serde::Serialize;
use serde::de::DeserializeOwned;
use sketch_model::RunRecord;
use sqlx::Row;
use sqlx::sqlite::SqliteRow;
use std::io::{Read, Write};

pub fn failing_to(doing: &'static str) -> impl Fn(sqlx::Error) -> StorageError {
    move |source| StorageError::Database { doing, source }
}

pub fn column<'r, T>(row: &'r SqliteRow, name: &'static str) -> Result<T, StorageError>
where
    T: sqlx::Decode<'r, sqlx::Sqlite> + sqlx::Type<sqlx::Sqlite>,
{
    row.try_get(name).map_err(failing_to("read a column"))
}

pub fn json<T: Serialize>(
    what: &'static str,
    id: impl ToString,
    value: &T,
) -> Result<String, StorageError> {
    serde_json::to_string(value).map_err(|source| StorageError::Damaged {
        what,
        id: id.to_string(),
        source,
    })
}

pub fn parsed<T: DeserializeOwned>(
    row: &SqliteRow,
    name: &'static str,
    what: &'static str,
    id: impl ToString,
) -> Result<T, StorageError> {
    let text: String = column(row, name)?;
    serde_json::from_str(&text).map_err(|source| StorageError::Damaged {
        what,
        id: id.to_string(),
        source,
    })
}

pub fn campaign(row: &SqliteRow) -> Result<Campaign, StorageError> {
    let id: i64 = column(row, "id")?;
    parsed(row, "state", "campaign", id)
}

/// A run record as it is stored.
pub fn packed(record: &RunRecord) -> Result<Vec<u8>, StorageError> {
    let text = json("run", &record.id, record)?;
    let mut packed = DeflateEncoder::new(Vec::new(), Compression::fast());
    packed
        .write_all(text.as_bytes())
        .and_then(|()| packed.finish())
        .map_err(|error| damaged_run(record.id.to_string(), serde_json::Error::io(error)))
}

pub fn stored_run(row: &SqliteRow) -> Result<StoredRun, StorageError> {
    let id: String = column(row, "id")?;
    let packed: Vec<u8> = column(row, "record")?;
    let mut text = Vec::new();
    let record = DeflateDecoder::new(packed.as_slice())
        .read_to_end(&mut text)
        .map_err(serde_json::Error::io)
        .and_then(|_| serde_json::from_slice(&text))
        .map_err(|source| damaged_run(id, source))?;
    Ok(StoredRun {
        arrival: Arrival(column(row, "arrival")?),
        record,
    })
}

fn damaged_run(id: String, source: serde_json::Error) -> StorageError {
    StorageError::Damaged {
        what: "run",
        id,
        source,
    }
}
