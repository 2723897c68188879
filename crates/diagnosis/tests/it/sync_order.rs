//! Synchronisation that is recorded for order alone orders what lies around it.
//!
//! A watchpoint's hit says only that the access came after the thread's previous
//! event and before it was handled. Locks around it make both ends sharp.

use crate::support::*;
use diagnosis::evidence::order::Evidence;
use proptest::prelude::*;

/// Whether the two hits of a script are ordered: the first before the second.
fn before(script: &str) -> (bool, bool) {
    let run = run("r", false, script);
    let evidence = Evidence::new(&run);
    let hits: Vec<usize> = (0..run.trace.events.len())
        .filter(|e| run.trace.events[*e].location.is_some())
        .collect();
    let [a, b] = hits[..] else {
        panic!("two hits, not {hits:?}");
    };
    (evidence.before(a, b), evidence.before(b, a))
}

#[test]
fn hits_that_overlap_are_unordered() {
    assert_eq!(before("A:W1@0-60! B:W2@0-90!"), (false, false));
}

#[test]
fn an_unlock_and_the_lock_that_waited_for_it_order_them() {
    // B begins to wait at 30 and gets the lock after A's unlock at 50.
    let script = "A:l4@10-20 A:W1@20-60! A:u5@50 B:l4@30-70 B:W2@70-90!";
    assert_eq!(before(script), (true, false));
}

#[test]
fn the_beginning_of_a_lock_alone_orders_nothing() {
    // That B's call had begun before A's section says nothing about who was first.
    let script = "A:l4@10-20 A:W1@20-60! A:u5@50 B:u5@30 B:W2@30-90!";
    assert_eq!(before(script), (false, false));
}

#[test]
fn an_unlock_long_before_does_not_order_what_follows_it() {
    let script = "A:l4@1-2 A:u5@3 A:W1@3-60! B:l4@30-35 B:W2@35-90!";
    assert_eq!(before(script), (false, false));
}

/// Sections of one lock in the order in which they really were: thread, time
/// that the lock was waited for, times to the access and to the unlock, and by
/// how much the hit was handled late.
fn sections() -> impl Strategy<Value = Vec<(usize, u64, u64, u64, u64)>> {
    let section = (0..3usize, 0..50u64, 1..20u64, 1..20u64, 0..40u64);
    proptest::collection::vec(section, 2..12)
}

proptest! {
    #[test]
    fn accesses_under_one_lock_are_ordered_as_they_were(sections in sections()) {
        let mut now = 100u64;
        let mut left = [0u64; 3];
        let mut words: Vec<(usize, String)> = Vec::new();
        for (thread, waited, to_access, to_unlock, late) in &sections {
            // A thread asks for the lock after it has left its last section.
            let asked = now.saturating_sub(*waited).max(left[*thread]);
            let got = now + 1;
            let unlock = got + to_access + to_unlock;
            let handled = got + to_access + late;
            let name = ["A", "B", "C"][*thread];
            words.push((*thread, format!(
                "{name}:l4@{asked}-{got} {name}:W1@{got}-{handled}! {name}:u5@{unlock}"
            )));
            now = unlock + 1;
            left[*thread] = unlock;
        }
        let script: Vec<&str> = words.iter().map(|(_, text)| text.as_str()).collect();
        let run = run("r", false, &script.join(" "));
        let evidence = Evidence::new(&run);
        // Events are by thread; the n-th section of a thread is its n-th write.
        let event_of = |number: usize| {
            let thread = sections[number].0;
            let nth = sections[..number].iter().filter(|s| s.0 == thread).count();
            let of_thread = (0..run.trace.events.len()).filter(|e| {
                let event = &run.trace.events[*e];
                event.thread.0 as usize == thread && event.location.is_some()
            });
            of_thread.clone().nth(nth).expect("a write for each section")
        };
        for first in 0..sections.len() {
            for second in first + 1..sections.len() {
                let (a, b) = (event_of(first), event_of(second));
                prop_assert!(evidence.before(a, b) && !evidence.before(b, a));
            }
        }
    }
}
