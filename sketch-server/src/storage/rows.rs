//! From database rows to values and back.
//!
//! Run records are most of what the database holds, and as JSON they repeat
//! themselves: deflated at the fastest level they take a tenth of the space.

use super::{Arrival, StorageError, StoredRun};
use diagnosis::campaign::Campaign;
use flate2::Compression;
use flate2::read::DeflateDecoder;
use flate2::write::DeflateEncoder;
use serde::Serialize;
use serde::de::DeserializeOwned;
use sketch_model::RunRecord;
use sqlx::any::AnyRow;
use sqlx::{Any, Decode, Row, Type};
use std::io::{Read, Write};

pub fn failing_to(doing: &'static str) -> impl Fn(sqlx::Error) -> StorageError {
    move |source| StorageError::Database { doing, source }
}

pub fn column<'r, T>(row: &'r AnyRow, name: &'static str) -> Result<T, StorageError>
where
    T: Decode<'r, Any> + Type<Any>,
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
    row: &AnyRow,
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

pub fn campaign(row: &AnyRow) -> Result<Campaign, StorageError> {
    let id: i64 = column(row, "id")?;
    parsed(row, "state", "campaign", id)
}

/// A run record as it is stored.
pub fn packed(record: &RunRecord) -> Result<Vec<u8>, StorageError> {
    let text =
        serde_json::to_vec(record).map_err(|error| damaged_run(record.id.to_string(), error))?;
    // In one piece: the compressor has work to do for every write.
    let mut packed = DeflateEncoder::new(Vec::with_capacity(text.len() / 4), Compression::fast());
    packed
        .write_all(&text)
        .and_then(|()| packed.finish())
        .map_err(|error| damaged_run(record.id.to_string(), serde_json::Error::io(error)))
}

pub fn stored_run(row: &AnyRow) -> Result<StoredRun, StorageError> {
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

/// Rows of pending runs as runs, and the arrivals of those that do not read back.
pub fn readable(rows: &[AnyRow]) -> Result<(Vec<StoredRun>, Vec<i64>), StorageError> {
    let (mut runs, mut damaged) = (Vec::new(), Vec::new());
    for row in rows {
        match stored_run(row) {
            Ok(run) => runs.push(run),
            Err(error @ StorageError::Damaged { .. }) => {
                // It must not stand in the way of all later ones.
                tracing::error!(%error, "a run is passed over");
                damaged.push(column(row, "arrival")?);
            }
            Err(error) => return Err(error),
        }
    }
    Ok((runs, damaged))
}
