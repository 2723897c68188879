//! Records that wait for the server, on disk.
//!
//! A record is acknowledged once it is synced; from then on it survives the
//! agent, and the machine. Segments are never edited: a segment whose records
//! have all reached the server is removed. A crash in between means that some
//! records are sent twice, which the server recognises by their ids.
//!
//! The spool is bounded. The last fifth of it is kept for failures, which are
//! rare and what all this is for; what finds no room is refused and counted.

mod disk;
mod frame;

pub use disk::{Disk, Folder};
pub use frame::LARGEST;

use std::{
    io,
    time::{SystemTime, UNIX_EPOCH},
};

const SUFFIX: &str = ".records";
/// A segment is closed and becomes sendable when it has grown to this size.
const SEGMENT: u64 = 4 << 20;

/// How much a record is worth when room is short.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Worth {
    Success,
    Failure,
}

#[derive(Debug, thiserror::Error)]
pub enum SpoolError {
    #[error(
        "the spool holds {held} bytes of at most {limit}; the server has been away too long, or \
         the limit is too small for this machine"
    )]
    Full { held: u64, limit: u64 },
    #[error("a record of {0} bytes is too large for the spool, which takes {LARGEST}")]
    TooLarge(usize),
    #[error("the spool cannot be used: {0}; check the rights and space of its folder")]
    Disk(#[from] io::Error),
}

/// What became of the records that were offered for sending.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sent {
    pub records: usize,
    /// Bytes at the ends of segments that a crash had left unfinished.
    pub torn: usize,
    /// Whether everything that could be claimed is gone.
    pub drained: bool,
}

/// Whether the taker has dealt with a record for good.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taken {
    Done,
    NotNow,
}

/// A spool over some disk.
#[derive(Debug)]
pub struct Spool<D> {
    disk: D,
    limit: u64,
    /// The segment that this spool appends to, and its size.
    current: Option<(String, u64)>,
    /// Makes the names of this process's segments differ.
    unique: u64,
    /// Only sorts segments: nothing is lost where it is wrong.
    now_ms: fn() -> u64,
}

fn system_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| u64::try_from(since.as_millis()).unwrap_or(0))
}

impl<D: Disk> Spool<D> {
    pub fn new(disk: D, limit: u64, unique: u64) -> Spool<D> {
        Spool {
            disk,
            limit,
            current: None,
            unique,
            now_ms: system_ms,
        }
    }

    /// Bytes on disk, those of other agents included.
    pub fn held(&mut self) -> io::Result<u64> {
        Ok(self.disk.list()?.iter().map(|(_, size)| size).sum())
    }

    /// Adds a record; when this returns, it is safe.
    pub fn append(&mut self, record: &[u8], worth: Worth) -> Result<(), SpoolError> {
        self.append_all(&[record], worth)
    }

    /// Adds records that become safe together, for the price of one sync.
    pub fn append_all(&mut self, records: &[&[u8]], worth: Worth) -> Result<(), SpoolError> {
        if let Some(record) = records.iter().find(|record| record.len() > LARGEST) {
            return Err(SpoolError::TooLarge(record.len()));
        }
        let framed: Vec<u8> = records.iter().flat_map(|r| frame::frame(r)).collect();
        let size = framed.len() as u64;
        let held = self.held()?;
        let limit = match worth {
            Worth::Success => self.limit / 5 * 4,
            Worth::Failure => self.limit,
        };
        if held.saturating_add(size) > limit {
            return Err(SpoolError::Full { held, limit });
        }
        let written = self.write(&framed);
        match &mut self.current {
            Some((_, length)) if written.is_ok() => {
                *length += size;
                if *length >= SEGMENT {
                    self.let_go();
                }
            }
            // Nothing in it was ever acknowledged; on a full disk such would pile up.
            Some((name, 0)) => {
                let _ = self.disk.remove(name);
                self.current = None;
            }
            // Whatever it holds now, nothing may be appended behind half a frame.
            _ => self.let_go(),
        }
        Ok(written?)
    }

    fn write(&mut self, framed: &[u8]) -> io::Result<()> {
        let name = match &self.current {
            Some((name, _)) => name.clone(),
            None => {
                let name = self.next_name();
                self.disk.create(&name)?;
                self.current = Some((name.clone(), 0));
                name
            }
        };
        self.disk.append(&name, framed)?;
        self.disk.sync(&name)
    }

    /// Sorts by time, so that the oldest records go first.
    fn next_name(&mut self) -> String {
        let now = (self.now_ms)();
        self.unique = self.unique.wrapping_add(1);
        format!("{now:012x}-{:016x}{SUFFIX}", self.unique)
    }

    /// Leaves the segment to whoever sends; the next record begins a new one.
    pub fn let_go(&mut self) {
        if let Some((name, _)) = self.current.take() {
            self.disk.release(&name);
        }
    }

    /// Offers every record, oldest first, and removes segments whose records
    /// have all been taken. Ends at the first record that is not.
    pub fn send(&mut self, mut take: impl FnMut(&[u8]) -> Taken) -> io::Result<Sent> {
        self.let_go();
        let mut sent = Sent::default();
        for (name, _) in self.disk.list()? {
            if !self.disk.claim(&name)? {
                continue;
            }
            let bytes = match self.disk.read(&name) {
                // Another agent has sent it meanwhile.
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                read => read?,
            };
            let (records, torn) = frame::unframe(&bytes);
            for record in records {
                if take(record) == Taken::NotNow {
                    self.disk.release(&name);
                    return Ok(sent);
                }
                sent.records += 1;
            }
            sent.torn += torn;
            self.disk.remove(&name)?;
        }
        sent.drained = true;
        Ok(sent)
    }
}

#[cfg(test)]
mod crash_tests;
#[cfg(test)]
mod hours_tests;
