//! The spool loses its power between any two operations, and within them.

use super::*;
use proptest::prelude::*;
use std::collections::BTreeMap;

/// A disk that remembers what is safe and what is only written, and stops
/// working after a number of operations, as if the plug had been pulled.
#[derive(Clone, Debug, Default)]
struct Fragile {
    /// Bytes written, and how many of them are synced.
    segments: BTreeMap<String, (Vec<u8>, usize)>,
    operations_left: Option<usize>,
}

impl Fragile {
    fn operate(&mut self) -> io::Result<()> {
        match &mut self.operations_left {
            Some(0) => Err(io::Error::other("the power is gone")),
            Some(left) => {
                *left -= 1;
                Ok(())
            }
            None => Ok(()),
        }
    }

    /// The disk after the crash: of the unsynced bytes some prefix survived,
    /// and the rest may be there as zeros.
    fn after_crash(&self, survived: usize, zeros: bool) -> Fragile {
        let mut after = Fragile::default();
        for (name, (bytes, synced)) in &self.segments {
            let mut left = bytes[..(*synced + survived).min(bytes.len())].to_vec();
            if zeros {
                left.resize(bytes.len(), 0);
            }
            let length = left.len();
            after.segments.insert(name.clone(), (left, length));
        }
        after
    }
}

impl Disk for Fragile {
    fn create(&mut self, name: &str) -> io::Result<()> {
        self.operate()?;
        self.segments.insert(name.to_owned(), (Vec::new(), 0));
        Ok(())
    }

    fn append(&mut self, name: &str, bytes: &[u8]) -> io::Result<()> {
        let outcome = self.operate();
        let (written, _) = self.segments.get_mut(name).expect("created");
        // Even the operation that fails may have written something.
        let reached = if outcome.is_ok() {
            bytes.len()
        } else {
            bytes.len() / 2
        };
        written.extend_from_slice(&bytes[..reached]);
        outcome
    }

    fn sync(&mut self, name: &str) -> io::Result<()> {
        self.operate()?;
        let (written, synced) = self.segments.get_mut(name).expect("created");
        *synced = written.len();
        Ok(())
    }

    fn remove(&mut self, name: &str) -> io::Result<()> {
        self.operate()?;
        self.segments.remove(name);
        Ok(())
    }

    fn read(&mut self, name: &str) -> io::Result<Vec<u8>> {
        Ok(self.segments[name].0.clone())
    }

    fn list(&mut self) -> io::Result<Vec<(String, u64)>> {
        let sized =
            |(name, (bytes, _)): (&String, &(Vec<u8>, usize))| (name.clone(), bytes.len() as u64);
        Ok(self.segments.iter().map(sized).collect())
    }

    fn claim(&mut self, _: &str) -> io::Result<bool> {
        Ok(true)
    }

    fn release(&mut self, _: &str) {}
}

fn record(number: usize) -> Vec<u8> {
    format!("record {number}").into_bytes()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    /// Appends and sends in any mixture, a crash after any operation, any part
    /// of the unsynced bytes lost: every acknowledged record was sent or is
    /// still there, whole, and nothing else is.
    #[test]
    fn no_acknowledged_record_is_lost_and_none_is_invented(
        script in prop::collection::vec(0..4u8, 1..24),
        power in 0usize..60,
        survived in 0usize..80,
        zeros in any::<bool>(),
    ) {
        let disk = Fragile { operations_left: Some(power), ..Fragile::default() };
        let mut spool = Spool::new(disk, 1 << 20, 0);
        let mut acknowledged = Vec::new();
        let mut attempted = Vec::new();
        let mut delivered: Vec<Vec<u8>> = Vec::new();
        for (number, step) in script.iter().enumerate() {
            if *step == 0 {
                // The server takes a few and is gone again.
                let mut willing = number % 4;
                let _ = spool.send(|bytes| {
                    if willing == 0 {
                        return Taken::NotNow;
                    }
                    willing -= 1;
                    delivered.push(bytes.to_vec());
                    Taken::Done
                });
            } else {
                attempted.push(record(number));
                if spool.append(&record(number), Worth::Success).is_ok() {
                    acknowledged.push(record(number));
                }
            }
        }
        let disk = spool.disk.after_crash(survived, zeros);
        let mut again = Spool::new(disk, 1 << 20, 1 << 32);
        let sent = again.send(|bytes| {
            delivered.push(bytes.to_vec());
            Taken::Done
        });
        prop_assert!(sent.expect("works again").drained);
        for record in &acknowledged {
            prop_assert!(delivered.contains(record), "lost {record:?}");
        }
        for record in &delivered {
            prop_assert!(attempted.contains(record), "invented {record:?}");
        }
        prop_assert_eq!(again.held().expect("lists"), 0);
    }
}

#[test]
fn the_last_fifth_is_kept_for_failures() {
    let mut spool = Spool::new(Fragile::default(), 200, 0);
    let big = [7; 140];
    spool.append(&big, Worth::Success).expect("fits");
    let refused = spool.append(b"another", Worth::Success);
    assert!(matches!(
        refused,
        Err(SpoolError::Full {
            held: 160,
            limit: 160
        })
    ));
    spool
        .append(b"a failure", Worth::Failure)
        .expect("has room");
    assert!(spool.append(&big, Worth::Failure).is_err());
}

#[test]
fn two_agents_share_a_folder_without_touching_each_others_segments() {
    let folder = tempfile::tempdir().expect("a folder");
    let open = |unique| {
        let disk = Folder::open(folder.path()).expect("opens");
        Spool::new(disk, 1 << 20, unique)
    };
    let (mut writer, mut reader) = (open(0), open(1 << 32));
    writer
        .append(b"from a running agent", Worth::Success)
        .expect("fits");
    let mut seen = Vec::new();
    let mut send = |spool: &mut Spool<Folder>| {
        spool.send(|bytes| {
            seen.push(bytes.to_vec());
            Taken::Done
        })
    };
    assert_eq!(send(&mut reader).expect("lists").records, 0);
    drop(writer);
    assert_eq!(send(&mut reader).expect("lists").records, 1);
    assert_eq!(seen, [b"from a running agent"]);
    assert_eq!(reader.held().expect("lists"), 0);
}
