//! Hours without a server, a disk that fills up, and clocks that jump: without
//! waiting for any of them.

use super::*;
use std::{
    cell::Cell,
    collections::{BTreeMap, BTreeSet},
};

/// A disk in memory with so much room, and no more.
#[derive(Debug)]
struct Small {
    segments: BTreeMap<String, Vec<u8>>,
    room: usize,
}

impl Small {
    fn of(room: usize) -> Small {
        Small {
            segments: BTreeMap::new(),
            room,
        }
    }

    fn used(&self) -> usize {
        self.segments.values().map(Vec::len).sum()
    }
}

impl Disk for Small {
    fn create(&mut self, name: &str) -> io::Result<()> {
        assert!(!self.segments.contains_key(name), "{name} is overwritten");
        self.segments.insert(name.to_owned(), Vec::new());
        Ok(())
    }

    fn append(&mut self, name: &str, bytes: &[u8]) -> io::Result<()> {
        let left = self.room - self.used();
        let fits = bytes.len().min(left);
        let segment = self.segments.get_mut(name).expect("created");
        segment.extend_from_slice(&bytes[..fits]);
        match fits == bytes.len() {
            true => Ok(()),
            false => Err(io::ErrorKind::StorageFull.into()),
        }
    }

    fn sync(&mut self, _: &str) -> io::Result<()> {
        Ok(())
    }

    fn remove(&mut self, name: &str) -> io::Result<()> {
        self.segments.remove(name);
        Ok(())
    }

    fn read(&mut self, name: &str) -> io::Result<Vec<u8>> {
        Ok(self.segments[name].clone())
    }

    fn list(&mut self) -> io::Result<Vec<(String, u64)>> {
        let sized = |(name, bytes): (&String, &Vec<u8>)| (name.clone(), bytes.len() as u64);
        Ok(self.segments.iter().map(sized).collect())
    }

    fn claim(&mut self, _: &str) -> io::Result<bool> {
        Ok(true)
    }

    fn release(&mut self, _: &str) {}
}

fn record(number: usize) -> Vec<u8> {
    format!("record {number} {}", "x".repeat(8000)).into_bytes()
}

/// Everything that comes out, each once.
fn drained(spool: &mut Spool<Small>) -> BTreeSet<Vec<u8>> {
    let mut out = BTreeSet::new();
    let sent = spool.send(|bytes| {
        assert!(out.insert(bytes.to_vec()), "nothing comes twice");
        Taken::Done
    });
    assert!(sent.expect("readable").drained);
    out
}

#[test]
fn a_day_without_a_server_fills_the_spool_and_no_more() {
    const LIMIT: u64 = 32 << 20;
    let mut spool = Spool::new(Small::of(usize::MAX / 2), LIMIT, 1);
    let mut kept = BTreeSet::new();
    let mut refused = 0;
    // Two runs a second, one in a thousand fails.
    for number in 0..24 * 3600 * 2 / 10 {
        let worth = match number % 1000 {
            0 => Worth::Failure,
            _ => Worth::Success,
        };
        match spool.append(&record(number), worth) {
            Ok(()) => {
                kept.insert(record(number));
            }
            Err(SpoolError::Full { .. }) => {
                assert_eq!(worth, Worth::Success, "failures have a fifth of their own");
                refused += 1;
            }
            Err(other) => panic!("{other}"),
        }
        assert!(spool.held().expect("listed") <= LIMIT);
    }
    assert!(refused > 0, "it was full");
    assert_eq!(drained(&mut spool), kept);
    assert_eq!(spool.held().expect("listed"), 0);
}

#[test]
fn a_full_disk_refuses_and_takes_again_when_there_is_room() {
    let mut spool = Spool::new(Small::of(100_000), 1 << 30, 1);
    let mut kept = BTreeSet::new();
    let mut refused = 0;
    for number in 0..200 {
        match spool.append(&record(number), Worth::Failure) {
            Ok(()) => {
                kept.insert(record(number));
            }
            Err(SpoolError::Disk(error)) => {
                assert_eq!(error.kind(), io::ErrorKind::StorageFull);
                refused += 1;
            }
            Err(other) => panic!("{other}"),
        }
    }
    assert!(
        kept.len() >= 10 && refused > 100,
        "{} {refused}",
        kept.len()
    );
    // What could not be written leaves nothing behind that grows.
    assert!(
        spool.disk.segments.len() <= 3,
        "{}",
        spool.disk.segments.len()
    );
    assert_eq!(drained(&mut spool), kept);
    spool
        .append(&record(999), Worth::Success)
        .expect("there is room again");
    assert_eq!(drained(&mut spool).len(), 1);
}

#[test]
fn a_record_of_a_gigabyte_is_refused_before_it_is_copied() {
    let mut spool = Spool::new(Small::of(100), 4 << 30, 1);
    // Zeros that nobody touches take no memory.
    let huge = vec![0u8; 1 << 30];
    let refused = spool.append(&huge, Worth::Failure);
    assert!(matches!(refused, Err(SpoolError::TooLarge(size)) if size == 1 << 30));
    assert!(spool.disk.segments.is_empty());
}

thread_local! {
    static CLOCK: Cell<u64> = const { Cell::new(0) };
}

#[test]
fn a_clock_that_jumps_loses_and_repeats_nothing() {
    let mut spool = Spool::new(Small::of(1 << 30), 1 << 30, 1);
    spool.now_ms = || CLOCK.get();
    const YEAR: u64 = 365 * 24 * 3600 * 1000;
    let mut kept = BTreeSet::new();
    for (number, now) in [
        56 * YEAR,
        70 * YEAR,
        0,
        56 * YEAR,
        1,
        u64::MAX >> 17,
        56 * YEAR,
    ]
    .into_iter()
    .enumerate()
    {
        CLOCK.set(now);
        spool.append(&record(number), Worth::Success).expect("kept");
        // Each its own segment: the names are what the clock makes.
        spool.let_go();
        kept.insert(record(number));
    }
    assert_eq!(spool.disk.segments.len(), 7);
    assert_eq!(drained(&mut spool), kept);
}
