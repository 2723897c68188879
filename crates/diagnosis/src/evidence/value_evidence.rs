//! Order from the values that were read.
//!
//! For a read `r` and a write `w` of another thread that nothing else orders:
//!
//! * `r` returned something else than `w` wrote. If `w` had come first, a later
//!   write must have put `r`'s value there. If no write that can lie between
//!   them may have, `r` came **before** `w`.
//! * `r` returned what `w` wrote. If some access before `r` saw or left another
//!   value there, a write in between put `r`'s value there. If of all writes
//!   that can lie between only `w` may have, `w` came **before** `r`. Without
//!   such an access the value may have been there from the start (zeroed
//!   memory), and nothing follows.
//!
//! "May have" includes every write whose value is unknown, everything a library
//! or a lost record may have written, and every access to other bytes of the
//! same memory. Only exact values count.
//!
//! Limit: both rules see only the writes that were recorded. A statement that
//! is neither tracked nor caught by a watchpoint can write the value that
//! misleads them. Each iteration tracks more, so a wrong edge does not last.

use super::shared_location::{Access, At, Effect, SharedLocation};

/// Beyond this many read/write pairs values are not consulted: less evidence,
/// never wrong evidence.
const MAX_PAIRS: usize = 100_000;

/// New facts "x is before y" that values prove.
pub fn edges(location: &SharedLocation) -> Vec<(At, At)> {
    let with = |effect: Effect| -> Vec<At> {
        let accesses = location.all();
        accesses
            .filter(|at| location.access(*at).effect == effect)
            .collect()
    };
    let (reads, writes) = (with(Effect::Read), with(Effect::Write));
    let may_write = with(Effect::MayWrite);
    let sources: Vec<At> = writes.iter().chain(&may_write).copied().collect();
    let mut effort = reads.len().saturating_mul(sources.len());
    if effort > MAX_PAIRS {
        return Vec::new();
    }
    let mut edges = Vec::new();
    for r in &reads {
        for w in writes.iter().filter(|w| unordered(location, *r, **w)) {
            effort += sources.len();
            if effort > 20 * MAX_PAIRS {
                return edges;
            }
            edges.extend(edge(location, *r, *w, &sources));
        }
    }
    edges
}

fn unordered(location: &SharedLocation, a: At, b: At) -> bool {
    a.thread != b.thread && !location.before(a, b) && !location.before(b, a)
}

fn edge(location: &SharedLocation, r: At, w: At, sources: &[At]) -> Option<(At, At)> {
    let (read, write) = (location.access(r), location.access(w));
    let returned = read.value?;
    let wrote = write.value?;
    if read.range != write.range {
        return None;
    }
    let may_give = |at: &At| -> bool {
        let source = location.access(*at);
        source.range != read.range || source.value.is_none_or(|v| v == returned)
    };
    let others = || sources.iter().filter(|s| **s != w && may_give(s));
    if returned != wrote {
        let restored = others().any(|s| !location.before(*s, w) && !location.before(r, *s));
        return (!restored).then_some((r, w));
    }
    let elsewise = last_different_before(location, r, returned)?;
    let other_source = others().any(|s| !location.before(*s, elsewise) && !location.before(r, *s));
    (!other_source && !location.before(w, elsewise)).then_some((w, r))
}

/// The latest access of any one thread, provably before `r`, at which the
/// location held another value than `r` returned.
fn last_different_before(location: &SharedLocation, r: At, returned: u64) -> Option<At> {
    let range = location.access(r).range;
    let differs = |access: &Access| {
        access.effect != Effect::MayWrite
            && access.range == range
            && access.value.is_some_and(|v| v != returned)
    };
    // The reader's own thread first: its accesses are the closest to be sure of.
    let own = std::iter::once(r.thread);
    let others = (0..location.threads.len()).filter(|t| *t != r.thread);
    own.chain(others).find_map(|thread| {
        let end = location.first_not_before(r, thread);
        let index = location.threads[thread][..end].iter().rposition(differs)?;
        Some(At { thread, index })
    })
}
