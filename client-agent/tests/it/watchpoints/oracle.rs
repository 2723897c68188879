//! Against the truth: programs that know in which order their accesses happened,
//! and what they read, compared with what the record claims.

use crate::common::Workshop;
use sketch_model::{ProbeEvent, ThreadIndex};
use std::collections::HashMap;

const UNGOVERNED: &[&str] = &["--max-overhead", "0"];
/// Pairs this close in the true order are compared.
const NEIGHBOURS: usize = 64;
const THREADS: u64 = 2 * 30;
const EVENTS: u64 = 2000;

/// What intervals claim: all of one lies before all of the other.
fn claimed_before(a: &ProbeEvent, b: &ProbeEvent) -> bool {
    a.before.max(a.after) < b.before.min(b.after)
}

#[test]
fn no_pair_is_ever_reported_in_the_wrong_order() {
    let workshop = Workshop::new();
    let pair = workshop.compile_pair_of("oracle", &[]);
    let (output, record) = workshop.record_tracked_with(UNGOVERNED, &pair, &["order"]);
    assert_eq!(output.status.code(), Some(0));
    let mut events: Vec<(ThreadIndex, ProbeEvent)> = Vec::new();
    for thread in &record.threads {
        assert_eq!(thread.dropped, 0);
        events.extend(thread.events().map(|e| (thread.index, *e)));
    }
    // The ticket is the place in the true order; all of them are there.
    events.sort_by_key(|(_, event)| event.value);
    let tickets: Vec<u64> = events.iter().map(|(_, e)| e.value).collect();
    let whole: Vec<u64> = (0..THREADS * EVENTS).collect();
    assert!(
        tickets == whole,
        "{} of {} events are there",
        tickets.len(),
        whole.len()
    );
    let (mut pairs, mut unordered, mut adjacent, mut adjacent_unordered) = (0u64, 0u64, 0u64, 0u64);
    for (at, (thread, earlier)) in events.iter().enumerate() {
        for (other, later) in events[at + 1..].iter().take(NEIGHBOURS) {
            if other == thread {
                continue;
            }
            assert!(
                !claimed_before(later, earlier),
                "{later:?} is claimed to be before {earlier:?}"
            );
            let open = u64::from(!claimed_before(earlier, later));
            pairs += 1;
            unordered += open;
            if later.value == earlier.value + 1 {
                adjacent += 1;
                adjacent_unordered += open;
            }
        }
    }
    println!(
        "{pairs} contended pairs, none in the wrong order; unordered: {unordered} ({:.2}%), of \
         {adjacent} adjacent ones {adjacent_unordered} ({:.1}%)",
        100.0 * unordered as f64 / pairs as f64,
        100.0 * adjacent_unordered as f64 / adjacent.max(1) as f64
    );
    assert!(pairs >= 100_000, "{pairs}");
}

#[test]
fn every_value_of_a_contended_load_is_the_one_that_was_read() {
    let workshop = Workshop::new();
    let pair = workshop.compile_pair_of("oracle", &[]);
    let (output, record) = workshop.record_tracked_with(UNGOVERNED, &pair, &["values"]);
    assert_eq!(record.watch.refused, None);
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let mut truth: HashMap<i32, Vec<u64>> = HashMap::new();
    for line in said.lines() {
        let mut numbers = line.split(' ').map(|n| n.parse::<u64>().expect("a number"));
        let tid = numbers.next().expect("a thread") as i32;
        truth.insert(tid, numbers.collect());
    }
    assert_eq!(truth.len(), 3, "{said}");
    let changed = truth.values().flatten().any(|value| *value != 0);
    assert!(changed, "nobody wrote: {said}");
    // Hits in the middle may not have been kept; those of the readers that were
    // are a thread's first and last.
    let lost = record.watch.counted > record.watch.hits.len() as u64;
    let mut compared = 0;
    for (tid, read) in &truth {
        let claimed: Vec<u64> = record
            .watch
            .hits
            .iter()
            .filter(|hit| hit.tid == *tid)
            .map(|hit| hit.registers[1])
            .collect();
        compared += claimed.len();
        if lost {
            let mut rest = read.iter();
            assert!(claimed.iter().all(|value| rest.any(|v| v == value)));
        } else {
            assert_eq!(&claimed, read, "thread {tid}");
        }
    }
    println!("{compared} values of contended loads, all exact; hits lost: {lost}");
    assert!(compared >= 100, "{compared} {:?}", record.gaps);
}
