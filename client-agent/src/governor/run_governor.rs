//! Looks after a process while it runs: keeps its account, turns its switch, and
//! takes what ended threads have recorded.
//!
//! Driven by the thread that empties the watchpoints' rings. Each look costs the
//! agent some microseconds and the program nothing: the processor time comes
//! from the kernel, everything else from shared memory.

use super::context_switches::{SWITCH_NS, Switches};
use super::token_bucket::{Action, BUCKET_NS, Governor, Reading, Terms, Turn};
use crate::process::region::{EndedThreads, LiveRegion};
use crate::process::{clock, sys};
use crate::watchpoints::probe;
use sketch_model::{PauseReason, Pid, TrackingRecord, Tsc};

/// Between looks while the process works, and the most while it sleeps.
const SHORTEST_MS: i32 = 10;
const LONGEST_MS: i32 = 160;
/// A process that has not been looked at for so long turns recording off.
const ALONE_NS: f64 = 2e9;
/// No runtime takes longer to start.
const MOST_START_NS: u64 = 100_000_000;
/// Slots in use beyond which ended threads are looked for at every look.
const MANY_THREADS: usize = 32;
const SELDOM: u32 = 10;
/// A new seccomp filter should be known soon.
const OFTEN: u32 = 3;

/// What a start costs beyond what the runtime measures of it: pages of clones and rings
/// are touched for the first time later, and given back at the end. Programs that did next
/// to nothing took 0.2, 0.3 and 0.5 ms more than was measured (`docs/overhead.md`).
const REST_OF_START_NS: u64 = 400_000;

fn whole_start_ns(measured: u64) -> u64 {
    measured + REST_OF_START_NS
}

/// What was found out about the machine, once.
#[derive(Clone, Copy, Debug)]
pub struct Costs {
    pub ticks_per_ns: f64,
    pub hit_ns: u64,
}

impl Costs {
    /// For runs that nobody governs.
    pub const NONE: Costs = Costs {
        ticks_per_ns: 1.0,
        hit_ns: 0,
    };

    /// Takes a millisecond or two.
    pub fn measure(watchpoints: bool) -> Costs {
        Costs {
            ticks_per_ns: clock::ticks_per_ns(),
            hit_ns: if watchpoints { probe::hit_cost_ns() } else { 0 },
        }
    }
}

/// What tracking one run may cost.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Budget {
    /// The share of processor time.
    pub share: f64,
    /// What it may cost before it has earned anything.
    pub bucket_ns: u64,
}

impl Budget {
    /// Of a run for which nobody keeps an account.
    pub fn of_share(share: f64) -> Budget {
        Budget {
            share,
            bucket_ns: BUCKET_NS,
        }
    }
}

/// What came of it.
#[derive(Debug, Default)]
pub struct Report {
    pub tracking: TrackingRecord,
    pub ended: EndedThreads,
    /// Switches of threads with watchpoints that are on the account already.
    pub switches: u64,
}

pub struct Steward {
    region: LiveRegion,
    share: Option<f64>,
    terms: Terms,
    governor: Option<Governor>,
    began: Tsc,
    cpu_ns: u64,
    hits: u64,
    paid_ns: f64,
    look_ms: i32,
    looks: u32,
    ended: EndedThreads,
    switches: Switches,
    /// Watching has been ended.
    released: bool,
    /// What switches have cost since.
    late_ns: u64,
}

impl Steward {
    /// `budget` is what tracking may cost; `None` for any. Pays the bucket in.
    pub fn new(region: LiveRegion, budget: Option<Budget>, costs: Costs) -> Steward {
        let share = budget.map(|budget| budget.share);
        let terms = Terms {
            share: share.unwrap_or(1.0),
            bucket_ns: budget.map_or(BUCKET_NS, |budget| budget.bucket_ns),
            ticks_per_ns: costs.ticks_per_ns,
            hit_ns: costs.hit_ns,
        };
        if share.is_some() {
            region.add_credit(Governor::bucket(&terms));
            region.govern();
        }
        Steward {
            region,
            share,
            terms,
            governor: None,
            began: Tsc(0),
            cpu_ns: 0,
            hits: 0,
            paid_ns: 0.0,
            look_ms: SHORTEST_MS,
            looks: 0,
            ended: EndedThreads::default(),
            switches: Switches::default(),
            released: false,
            late_ns: 0,
        }
    }

    /// How long until the next look.
    pub fn patience_ms(&self) -> i32 {
        self.look_ms
    }

    /// One look. `hits` are those since the last one. Answers whether the
    /// watchpoints are to be turned on or off.
    pub fn look(&mut self, hits: u64) -> Option<bool> {
        self.note_hits(hits);
        let pid = self.region.pid()?;
        let now = Tsc(clock::counter());
        self.looks = self.looks.wrapping_add(1);
        let patience = ALONE_NS * self.terms.ticks_per_ns;
        self.region.look(now.0, patience as u64);
        let cpu_ns = sys::cpu_ns(pid).unwrap_or(self.cpu_ns);
        let idle = cpu_ns == self.cpu_ns && hits == 0;
        self.cpu_ns = cpu_ns;
        self.look_ms = if idle {
            (self.look_ms * 2).min(LONGEST_MS)
        } else {
            SHORTEST_MS
        };
        if !idle && self.region.enabled() {
            self.region.wake();
        }
        if self.looks % OFTEN == 1 {
            self.region.set_sandboxed(sys::has_seccomp_filter(pid));
            self.count_switches(pid);
        }
        if self.looks.is_multiple_of(SELDOM) || self.region.used_slots() > MANY_THREADS {
            self.region
                .harvest(&mut self.ended, |tid| sys::thread_lives(pid, tid));
        }
        self.govern(now)
    }

    /// Whether a watchpoint slot has ever been aimed.
    pub fn is_aimed(&self, slot: usize) -> bool {
        slot < 32 && self.region.aimed() & (1 << slot) != 0
    }

    /// While the events are open. Once they are to be closed, switches are not taken out
    /// of the account: that would keep recording off, and so keep the process from
    /// closing them. What they cost is told at the end.
    fn count_switches(&mut self, pid: Pid) {
        if self.share.is_none() || !self.region.watch_is_open() || self.watch_is_released() {
            return;
        }
        let cost_ns = self.switches.more(pid.0).saturating_mul(SWITCH_NS);
        match self.released {
            false => self.charge(cost_ns),
            true => self.late_ns = self.late_ns.saturating_add(cost_ns),
        }
    }

    /// How many switches there were, if they alone have used up half of what tracking
    /// may cost. Turning recording off would not end that.
    pub fn too_many_switches(&self) -> Option<u64> {
        let share = self.share?;
        let seen = self.switches.seen();
        let most_ns = (self.terms.bucket_ns as f64 + share * self.cpu_ns as f64) / 2.0;
        (seen as f64 * SWITCH_NS as f64 > most_ns).then_some(seen)
    }

    /// Ends the watching of this run: no slot is aimed again, and the process is to
    /// close its events.
    pub fn release_watch(&mut self) {
        self.released = true;
        self.region.release_watch();
    }

    /// Whether it has closed them.
    pub fn watch_is_released(&self) -> bool {
        self.released && self.region.watch_is_released()
    }

    /// The process that records.
    pub fn pid(&self) -> Option<i32> {
        self.region.pid().map(|pid| pid.0)
    }

    /// Takes what we made the program do out of its account.
    pub fn charge(&self, ns: u64) {
        if self.share.is_some() {
            let ticks = ns as f64 * self.terms.ticks_per_ns;
            self.region.add_credit(-(ticks as i64));
        }
    }

    fn govern(&mut self, now: Tsc) -> Option<bool> {
        self.share?;
        if self.region.counter_forbidden() {
            return None;
        }
        let enabled = self.region.enabled();
        if self.governor.is_none() {
            // Activation is not over yet.
            if !enabled && self.region.off_reason() == PauseReason::Unknown {
                return None;
            }
            self.began = Tsc(self.region.activated_at()).min(now);
            self.governor = Some(Governor::new(self.terms, self.began));
            // The process can write anything there; nobody starts for so long.
            self.charge(whole_start_ns(
                self.region.activation_ns().min(MOST_START_NS),
            ));
        }
        let action = self.governor.as_mut()?.step(Reading {
            now,
            cpu_ns: self.cpu_ns,
            hits: self.hits,
            enabled,
            off_since: Tsc(self.region.off_since()),
            off_reason: self.region.off_reason(),
            credit: self.region.credit(),
        });
        let Action { deposit, turn } = action;
        self.paid_ns += deposit as f64 / self.terms.ticks_per_ns;
        self.region.add_credit(deposit);
        match turn? {
            Turn::On => {
                self.region.turn_on();
                Some(true)
            }
            Turn::Off(reason) => {
                if enabled {
                    self.region.turn_off(reason, now.0);
                }
                Some(false)
            }
        }
    }

    /// Hits that came between two looks, or after the last one.
    pub fn note_hits(&mut self, hits: u64) {
        self.hits = self.hits.saturating_add(hits);
    }

    /// Call when the process has ended and all hits are known.
    pub fn finish(mut self) -> Report {
        let ended = Tsc(clock::counter());
        self.govern(ended);
        let hits_ns = self.hits as f64 * self.terms.hit_ns as f64;
        let left_ns = self.region.credit() as f64 / self.terms.ticks_per_ns;
        let first = self.terms.bucket_ns as f64;
        // Deposits are net of hits, so what is missing is all the rest: start, hooks,
        // aiming, turning, and switches while watching went on.
        let cost_ns = match self.share {
            Some(_) => (first + self.paid_ns - left_ns).max(0.0) + hits_ns + self.late_ns as f64,
            None => 0.0,
        };
        let began = self.began;
        Report {
            tracking: TrackingRecord {
                max_overhead: self.share,
                pauses: self
                    .governor
                    .map_or_else(Vec::new, |governor| governor.into_pauses(ended)),
                began,
                ended,
                cost_ns: cost_ns as u64,
                owed_ns: 0,
            },
            ended: self.ended,
            switches: self.switches.seen(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::region::{RegionFile, RegionSettings};
    use runtime::layout::{Control, Fatigue, Header, Region};
    use std::{fs::File, mem::offset_of, os::unix::fs::FileExt};

    const COSTS: Costs = Costs {
        ticks_per_ns: 2.0,
        hit_ns: 20_000,
    };
    const START_NS: u64 = 300_000;

    /// A steward of a process that has just started to record, and what it costs by
    /// the time that `then` is done.
    fn cost_of(share: Option<f64>, hits: u64, then: impl Fn(&Steward)) -> u64 {
        let settings = RegionSettings {
            want_watch: 0,
            cpus: 1,
            socket: None,
            arm_limit: 0,
            reply_patience_ms: 0,
            tracked: true,
            start: None,
        };
        let region = RegionFile::create(&settings).expect("a region");
        let budget = share.map(Budget::of_share);
        let mut steward = Steward::new(region.live().expect("mapped"), budget, COSTS);
        let file = File::from(region.fd().try_clone_to_owned().expect("a descriptor"));
        let header = offset_of!(Region, header);
        let control = offset_of!(Region, control);
        let put = |at: usize, bytes: &[u8]| file.write_all_at(bytes, at as u64).expect("written");
        let pid = std::process::id();
        put(header + offset_of!(Header, pid), &pid.to_le_bytes());
        put(
            header + offset_of!(Header, activation_ns),
            &START_NS.to_le_bytes(),
        );
        put(control + offset_of!(Control, enabled), &1u32.to_le_bytes());
        then(&steward);
        steward.note_hits(hits);
        steward.finish().tracking.cost_ns
    }

    #[test]
    fn start_hits_and_turning_are_all_on_the_account() {
        let share = Some(0.01);
        let start = whole_start_ns(START_NS);
        assert_eq!(cost_of(share, 0, |_| ()), start);
        assert_eq!(cost_of(share, 3, |_| ()), start + 60_000);
        let turning = |steward: &Steward| steward.charge(50_000);
        assert_eq!(cost_of(share, 0, turning), start + 50_000);
        assert_eq!(cost_of(None, 3, turning), 0);
    }

    #[test]
    fn threads_that_have_tired_are_woken_at_each_look_while_the_process_works() {
        let settings = RegionSettings {
            want_watch: 0,
            cpus: 1,
            socket: None,
            arm_limit: 0,
            reply_patience_ms: 0,
            tracked: true,
            start: None,
        };
        let region = RegionFile::create(&settings).expect("a region");
        let mut steward = Steward::new(region.live().expect("mapped"), None, COSTS);
        let file = File::from(region.fd().try_clone_to_owned().expect("a descriptor"));
        let control = offset_of!(Region, control);
        let put = |at: usize, value: u32| {
            let bytes = value.to_le_bytes();
            file.write_all_at(&bytes, at as u64).expect("written");
        };
        let get = |at: usize| {
            let mut bytes = [0; 4];
            file.read_exact_at(&mut bytes, at as u64).expect("read");
            u32::from_le_bytes(bytes)
        };
        let header = offset_of!(Region, header);
        put(header + offset_of!(Header, pid), std::process::id());
        put(control + offset_of!(Control, enabled), 1);
        let wakings = control + offset_of!(Control, wakings);
        let last = offset_of!(Region, fatigue) + size_of::<Fatigue>() - 4;
        put(wakings, 255);
        put(last, 77);
        steward.look(1);
        assert_eq!(get(last), 0);
        // The mark of 256 would be that of a fresh slot.
        assert_eq!(get(wakings), 257);
        put(control + offset_of!(Control, enabled), 0);
        put(last, 77);
        steward.look(1);
        assert_eq!((get(last), get(wakings)), (77, 257));
    }
}
