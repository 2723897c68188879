//! What may leave the machine: a record is reduced before anything else sees it.
//!
//! `full` sends values as they were. `shapes` replaces each value by another of
//! the same size by a secret permutation that keeps zero at zero and the sign in
//! place: equal values stay equal and different ones different, which is all
//! that most diagnoses need, and nobody without the secret can turn them back.
//! The secret (`secret.rs`) is never sent, only a fingerprint of it, because values
//! that different secrets disguised cannot be compared; it is combined with the
//! campaign, so that values cannot be compared across diagnoses either.
//! `control-flow-only` sends no values and no addresses of data at all.
//!
//! Addresses of data stay under `shapes`: two accesses are of one location by
//! their address, and an address says nothing of what is kept there. So do the places of
//! freed blocks, and which registers pointed into them. Registers
//! and stacks of watchpoint hits hold anything, so only return addresses stay.

use crate::record::secret::fingerprint;
use sha2::{Digest, Sha256};
use sketch_model::{
    FailureReport, Gap, LifetimeObstacle, Outcome, Privacy, ProbeEvent, ProbeKind, RunRecord,
    RuntimeAddress, SIZE_FLAG, SeenShapes, TEXT_DISGUISED,
};
use std::collections::HashMap;

/// The lowest page is never mapped: a fault there is a null pointer's.
const NULL_PAGE: u64 = 4096;
const ROUNDS: u8 = 6;

/// Takes out of a record what may not leave the machine.
pub fn reduce(record: &mut RunRecord, privacy: Privacy, secret: &[u8]) {
    record.privacy = privacy;
    record.privacy_key = (privacy == Privacy::Shapes).then(|| fingerprint(secret));
    match privacy {
        Privacy::Full => {}
        Privacy::Shapes => shapes(record, secret),
        Privacy::ControlFlowOnly => control_flow_only(record),
    }
}

fn events(record: &mut RunRecord) -> impl Iterator<Item = &mut ProbeEvent> {
    record.threads.iter_mut().flat_map(|thread| {
        let thinned = thread.thinned.iter_mut();
        let latest = thinned.filter_map(|site| site.latest.as_mut());
        thread.head.iter_mut().chain(&mut thread.tail).chain(latest)
    })
}

/// Whether an event's value is the program's; the others are numbers of ours.
fn carries_a_value(event: &ProbeEvent) -> bool {
    matches!(
        event.kind,
        ProbeKind::Read
            | ProbeKind::Write
            | ProbeKind::SyncEnd
            | ProbeKind::Argument
            | ProbeKind::Result
    )
}

fn shapes(record: &mut RunRecord, secret: &[u8]) {
    let tracked = record.execution.tracked();
    let campaign = tracked.map_or(0, |variant| variant.campaign.0);
    let mut key = secret.to_vec();
    key.extend_from_slice(&campaign.to_le_bytes());
    let mut disguise = Disguise {
        key,
        known: HashMap::new(),
    };
    for event in events(record) {
        if event.kind == ProbeKind::Text {
            disguise.text(event);
        } else if carries_a_value(event) {
            event.value = disguise.value(event.value, event.size & !SIZE_FLAG);
        }
    }
    let code: Vec<_> = record.mappings.iter().map(|m| m.start.0..m.end.0).collect();
    for hit in &mut record.watch.hits {
        hit.registers = [0; 16];
        for word in &mut hit.stack {
            if !code.iter().any(|range| range.contains(word)) {
                *word = 0;
            }
        }
    }
    if let Outcome::Failure(report) = &mut record.outcome {
        let null = |address: &RuntimeAddress| address.0 < NULL_PAGE;
        report.fault_address = report.fault_address.filter(null);
        withhold_words(report);
    }
}

fn control_flow_only(record: &mut RunRecord) {
    let withheld = [ProbeKind::Argument, ProbeKind::Result, ProbeKind::Text];
    for thread in &mut record.threads {
        thread.head.retain(|event| !withheld.contains(&event.kind));
        thread.tail.retain(|event| !withheld.contains(&event.kind));
    }
    // That two statements used the same memory is no control flow.
    if record.freed.take().is_some() {
        let because = LifetimeObstacle::Withheld;
        record.gaps.push(Gap::LifetimesNotObserved { because });
    }
    for event in events(record) {
        event.address = RuntimeAddress(0);
        if carries_a_value(event) {
            event.value = 0;
        }
    }
    for thread in &mut record.threads {
        for site in &mut thread.thinned {
            site.shapes = SeenShapes::default();
        }
    }
    if !record.watch.hits.is_empty() {
        let count = record.watch.hits.len() as u64;
        record.gaps.push(Gap::HitsWithheld { count });
        record.watch.hits.clear();
    }
    if let Outcome::Failure(report) = &mut record.outcome {
        report.fault_address = None;
        withhold_words(report);
    }
}

/// Messages and texts of exceptions may hold values; which type was thrown is
/// control flow.
fn withhold_words(report: &mut FailureReport) {
    let Some(said) = &mut report.said else {
        return;
    };
    let text = said.exception.as_mut().and_then(|e| e.text.take());
    if said.message.take().is_some() || text.is_some() {
        report.gaps.push(Gap::AbortMessageWithheld);
    }
    if said.exception.is_none() {
        report.said = None;
    }
}

/// The permutation, and what it has been asked already: records repeat values.
struct Disguise {
    key: Vec<u8>,
    known: HashMap<(u16, u64), u64>,
}

impl Disguise {
    fn value(&mut self, value: u64, size: u16) -> u64 {
        let bits: u32 = match size {
            1 => 8,
            2 => 16,
            4 => 32,
            _ => 64,
        };
        let mask = u64::MAX >> (64 - bits);
        let value = value & mask;
        if value == 0 {
            return 0;
        }
        if let Some(known) = self.known.get(&(size, value)) {
            return *known;
        }
        let negative = |v: u64| v >> (bits - 1) & 1;
        // Walks along the cycle of the permutation to the next value that is
        // like this one; it ends, at the latest at the value itself.
        let mut next = self.permuted(value, bits);
        while next == 0 || negative(next) != negative(value) {
            next = self.permuted(next, bits);
        }
        self.known.insert((size, value), next);
        next
    }

    /// Of a string a number remains: equal strings have the same one.
    fn text(&self, event: &mut ProbeEvent) {
        let mut input = self.key.clone();
        input.extend_from_slice(b"text");
        for word in [event.after.0, event.address.0, event.value] {
            input.extend_from_slice(&word.to_le_bytes());
        }
        event.after = event.before;
        event.address = RuntimeAddress(0);
        event.value = digest(&input);
        event.size = TEXT_DISGUISED;
    }

    /// A Feistel network over the halves of a value: whatever the round function
    /// is, this is a permutation.
    fn permuted(&self, value: u64, bits: u32) -> u64 {
        let half = bits / 2;
        let mask = (1u64 << half) - 1;
        let (mut left, mut right) = (value >> half & mask, value & mask);
        for round in 0..ROUNDS {
            let mixed = left ^ (self.round(round, bits, right) & mask);
            (left, right) = (right, mixed);
        }
        left << half | right
    }

    fn round(&self, round: u8, bits: u32, half: u64) -> u64 {
        let mut input = self.key.clone();
        input.push(round);
        input.push(bits as u8);
        input.extend_from_slice(&half.to_le_bytes());
        digest(&input)
    }
}

/// The first eight bytes of the SHA-256. A record can have a hundred thousand values, a
/// dozen of these each, and the command's end waits for it.
fn digest(input: &[u8]) -> u64 {
    let digest: [u8; 32] = Sha256::digest(input).into();
    digest
        .into_iter()
        .take(8)
        .fold(0, |number, byte| number << 8 | u64::from(byte))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn disguise(key: &str) -> Disguise {
        Disguise {
            key: key.into(),
            known: HashMap::new(),
        }
    }

    #[test]
    fn a_string_becomes_a_number_that_equal_strings_share() {
        let text = |words: [u64; 3]| {
            let mut event = ProbeEvent {
                site: sketch_model::SiteId(0),
                kind: ProbeKind::Text,
                size: 24 | SIZE_FLAG,
                before: sketch_model::Tsc(9),
                after: sketch_model::Tsc(words[0]),
                address: RuntimeAddress(words[1]),
                value: words[2],
            };
            disguise("secret").text(&mut event);
            event
        };
        let (one, same, other) = (text([1, 2, 3]), text([1, 2, 3]), text([1, 2, 4]));
        assert_eq!(one, same);
        assert_ne!(one.value, other.value);
        assert_eq!(
            (one.size, one.address.0, one.after.0),
            (TEXT_DISGUISED, 0, 9)
        );
    }

    #[test]
    fn a_value_has_the_same_disguise_in_every_version() {
        assert_eq!(digest(b"abc"), 0xba78_16bf_8f01_cfea);
        let digits = &code_patch::sha256_hex(b"secret")[..16];
        assert_eq!(u64::from_str_radix(digits, 16), Ok(digest(b"secret")));
    }

    #[test]
    fn every_byte_has_one_disguise_of_its_own_sign() {
        let mut one = disguise("secret");
        let images: Vec<u64> = (0..256).map(|v| one.value(v, 1)).collect();
        assert_eq!(images.iter().collect::<BTreeSet<_>>().len(), 256);
        assert_eq!(images[0], 0);
        assert!(images[..128].iter().all(|v| *v < 128));
        assert!(images[128..].iter().all(|v| (128..256).contains(v)));
        // The identity would disguise nothing.
        let same = images.iter().enumerate().filter(|(v, i)| *v as u64 == **i);
        assert!(same.count() < 32);
    }

    proptest! {
        #[test]
        fn zero_sign_and_equality_survive(a in any::<i32>(), b in any::<i32>()) {
            let mut one = disguise("secret");
            let image = |one: &mut Disguise, v: i32| one.value(u64::from(v as u32), 4) as u32 as i32;
            let (x, y) = (image(&mut one, a), image(&mut one, b));
            prop_assert_eq!(x == y, a == b);
            prop_assert_eq!(x == 0, a == 0);
            prop_assert_eq!(x < 0, a < 0);
        }

        #[test]
        fn another_secret_is_another_disguise(value in 1u64..u64::MAX) {
            let (mut one, mut other) = (disguise("one"), disguise("other"));
            prop_assert_ne!(one.value(value, 8), other.value(value, 8));
        }
    }
}
