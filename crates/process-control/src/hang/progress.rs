//! Does the process get anywhere? Two looks at its threads → a verdict. Pure.
//!
//! A service that waits for work looks idle too, so idleness alone is no hang.
//! What tells them apart is what is waited for: a thread in `epoll_wait` or
//! `accept` waits for the world, a thread in `futex` waits for another thread.
//! If every thread waits for another thread without a time limit, and none has
//! used the processor for the whole patience, nobody is left to wake them.
//!
//! The operator may also declare plain idleness a hang, for programs that
//! should never rest.

use sketch_model::Tid;
use std::collections::BTreeMap;

/// What one look at a thread showed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ThreadLook {
    /// User and system time used so far, in clock ticks.
    pub ticks: u64,
    pub waiting: Waiting,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Waiting {
    /// In a futex without a time limit: for another thread.
    ForAThread { futex: u64 },
    /// In another system call, by number.
    InACall(i64),
    /// Running, or in a state that cannot be read.
    Unknown,
}

/// All threads of a process by their ids.
pub type Look = BTreeMap<Tid, ThreadLook>;

/// What the operator calls a hang.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// All threads wait for each other.
    Deadlock,
    /// No thread uses the processor, whatever it waits for.
    Idle,
}

/// Whether nothing moved between two looks, and nothing will.
pub fn stands_still(before: &Look, now: &Look, rule: Rule) -> bool {
    let unmoved = !now.is_empty() && before == now;
    unmoved
        && match rule {
            Rule::Deadlock => now
                .values()
                .all(|thread| matches!(thread.waiting, Waiting::ForAThread { .. })),
            Rule::Idle => now
                .values()
                .all(|thread| !matches!(thread.waiting, Waiting::Unknown)),
        }
}

/// The text of `/proc/PID/task/TID/syscall` → what the thread waits for.
pub fn waiting(text: &str) -> Waiting {
    const SYS_FUTEX: i64 = 202;
    const FUTEX_WAIT: u64 = 0;
    const FUTEX_LOCK_PI: u64 = 6;
    const FUTEX_WAIT_BITSET: u64 = 9;
    const FUTEX_LOCK_PI2: u64 = 13;
    const COMMAND: u64 = 0x7f;
    let mut words = text.split_whitespace();
    let Some(call) = words.next().and_then(|word| word.parse::<i64>().ok()) else {
        return Waiting::Unknown;
    };
    let arguments: Vec<u64> = words
        .map_while(|word| u64::from_str_radix(word.strip_prefix("0x")?, 16).ok())
        .collect();
    match arguments[..] {
        _ if call < 0 => Waiting::Unknown,
        [futex, operation, _, timeout, ..]
            if call == SYS_FUTEX
                && timeout == 0
                && matches!(
                    operation & COMMAND,
                    FUTEX_WAIT | FUTEX_LOCK_PI | FUTEX_WAIT_BITSET | FUTEX_LOCK_PI2
                ) =>
        {
            Waiting::ForAThread { futex }
        }
        _ => Waiting::InACall(call),
    }
}

/// The text of `/proc/PID/task/TID/stat` → clock ticks used. The name may hold
/// spaces and parentheses; fields count from its end.
pub fn ticks(text: &str) -> Option<u64> {
    let (_, fields) = text.rsplit_once(')')?;
    let mut fields = fields.split_whitespace().skip(11);
    let user: u64 = fields.next()?.parse().ok()?;
    let system: u64 = fields.next()?.parse().ok()?;
    Some(user + system)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn look(threads: &[(u64, Waiting)]) -> Look {
        let numbered = threads.iter().enumerate();
        numbered
            .map(|(tid, (ticks, waiting))| {
                let (ticks, waiting) = (*ticks, waiting.clone());
                (Tid(tid as i32), ThreadLook { ticks, waiting })
            })
            .collect()
    }

    const LOCK: Waiting = Waiting::ForAThread { futex: 64 };
    const POLL: Waiting = Waiting::InACall(7);

    #[test]
    fn only_threads_that_all_wait_for_threads_are_deadlocked() {
        let table = [
            (vec![(5, LOCK), (6, LOCK)], true, true),
            (vec![(5, LOCK), (6, POLL)], false, true),
            (vec![(5, LOCK), (6, Waiting::Unknown)], false, false),
            (vec![], false, false),
        ];
        for (threads, deadlock, idle) in table {
            let at = look(&threads);
            assert_eq!(stands_still(&at, &at, Rule::Deadlock), deadlock, "{at:?}");
            assert_eq!(stands_still(&at, &at, Rule::Idle), idle, "{at:?}");
        }
    }

    #[test]
    fn time_used_or_another_futex_is_progress() {
        let before = look(&[(5, LOCK), (6, LOCK)]);
        let used = look(&[(5, LOCK), (7, LOCK)]);
        let moved = look(&[(5, LOCK), (6, Waiting::ForAThread { futex: 128 })]);
        let ended = look(&[(5, LOCK)]);
        for now in [used, moved, ended] {
            assert!(!stands_still(&before, &now, Rule::Deadlock), "{now:?}");
        }
    }

    #[test]
    fn the_kernels_words_are_understood() {
        let wait = "202 0x7f00 0x80 0x2 0x0 0x0 0x0 0x7ffd 0x7f12\n";
        assert_eq!(waiting(wait), Waiting::ForAThread { futex: 0x7f00 });
        let bitset = "202 0x7f00 0x189 0x0 0x0 0x0 0xffffffff 0x7ffd 0x7f12";
        assert_eq!(waiting(bitset), Waiting::ForAThread { futex: 0x7f00 });
        let timed = "202 0x7f00 0x189 0x0 0x7ffe 0x0 0xffffffff 0x7ffd 0x7f12";
        assert_eq!(waiting(timed), Waiting::InACall(202));
        assert_eq!(
            waiting("7 0x1 0x2 0x3 0x4 0x5 0x6 0x7 0x8"),
            Waiting::InACall(7)
        );
        assert_eq!(waiting("running\n"), Waiting::Unknown);
        assert_eq!(waiting("-1 0x7ffd 0x7f12"), Waiting::Unknown);
        let stat = "42 (a) b) S 1 42 42 0 -1 4194560 10 0 0 0 7 8 0 0 20 0 2 0 99 0 0";
        assert_eq!(ticks(stat), Some(15));
        assert_eq!(ticks("42 (name"), None);
    }
}
