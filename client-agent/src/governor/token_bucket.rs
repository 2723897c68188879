//! When to turn recording off and on: arithmetic on readings, no clock, no IO.
//!
//! A token bucket. A share of the processor time that the program uses flows in;
//! what hooks and hits cost flows out. Recording starts with a full bucket, so
//! that a short program is recorded whole: a run never costs more than the
//! bucket plus the share. How large the bucket is, the ledger says
//! ([`super::ledger`]). An empty bucket turns recording off, and a level of
//! refill turns it on again. That level doubles each time recording did not last
//! (a hot loop should pause long and rarely, not flicker: turning costs too) and
//! falls back once it did.

use sketch_model::{Pause, PauseReason, Tsc};

/// The bucket of a run of which nothing is known, in nanoseconds of overhead.
pub const BUCKET_NS: u64 = 10_000_000;
/// The lowest refill that turns recording on, as a fraction of the bucket.
const LEVELS: u32 = 4;
/// Recording that lasted this long is no flicker.
const LASTED_NS: u64 = 1_000_000_000;
/// Pauses kept one by one; then the last one grows over what comes.
const MOST_PAUSES: usize = 1024;

/// What was seen at one moment.
#[derive(Clone, Copy, Debug)]
pub struct Reading {
    pub now: Tsc,
    /// Processor time that the process has used.
    pub cpu_ns: u64,
    /// Watchpoint hits so far.
    pub hits: u64,
    pub enabled: bool,
    /// When and why the switch was turned off, by whom ever.
    pub off_since: Tsc,
    pub off_reason: PauseReason,
    /// Ticks in the account.
    pub credit: i64,
}

/// What to do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Action {
    /// Ticks to add to the account; negative for hits.
    pub deposit: i64,
    pub turn: Option<Turn>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    On,
    /// The switch as well as the watchpoints.
    Off(PauseReason),
}

/// What a run may cost, on this machine.
#[derive(Clone, Copy, Debug)]
pub struct Terms {
    /// The share of processor time, for example 0.01.
    pub share: f64,
    pub bucket_ns: u64,
    pub ticks_per_ns: f64,
    pub hit_ns: u64,
}

#[derive(Debug)]
pub struct Governor {
    terms: Terms,
    cpu_ns: u64,
    hits: u64,
    /// When recording was last turned on.
    on_since: Tsc,
    /// Whether the watchpoints are on as far as we know.
    watching: bool,
    level: u32,
    pauses: Vec<Pause>,
    /// The pause that is not over.
    open: Option<(Tsc, PauseReason)>,
}

impl Governor {
    pub fn new(terms: Terms, began: Tsc) -> Governor {
        Governor {
            terms,
            cpu_ns: 0,
            hits: 0,
            on_since: began,
            watching: true,
            level: 0,
            pauses: Vec::new(),
            open: None,
        }
    }

    /// Ticks that a full bucket holds.
    pub fn bucket(terms: &Terms) -> i64 {
        (terms.bucket_ns as f64 * terms.ticks_per_ns) as i64
    }

    pub fn step(&mut self, reading: Reading) -> Action {
        let bucket = Governor::bucket(&self.terms);
        let used = reading.cpu_ns.saturating_sub(self.cpu_ns);
        self.cpu_ns = self.cpu_ns.max(reading.cpu_ns);
        let hits = reading.hits.saturating_sub(self.hits);
        self.hits = self.hits.max(reading.hits);
        let income = used as f64 * self.terms.share * self.terms.ticks_per_ns;
        let spent = hits as f64 * self.terms.hit_ns as f64 * self.terms.ticks_per_ns;
        // Hooks go on paying meanwhile; what overflows is not kept.
        let room = bucket.saturating_sub(reading.credit) as f64 + spent;
        let deposit = (income.min(room.max(0.0)) - spent) as i64;
        let credit = reading.credit.saturating_add(deposit);
        let turn = if reading.enabled {
            (credit < 0).then(|| {
                // What we charge beside hits (the start) may be the last that hooks
                // had left.
                let reason = match hits {
                    0 => PauseReason::Hooks,
                    _ => PauseReason::WatchpointHits,
                };
                self.pause(reading.now, reason);
                self.watching = false;
                Turn::Off(reason)
            })
        } else {
            self.while_off(reading, credit, hits)
        };
        Action { deposit, turn }
    }

    fn while_off(&mut self, reading: Reading, credit: i64, hits: u64) -> Option<Turn> {
        if self.open.is_none() {
            // Hooks turned it off. A time that cannot be theirs is not used.
            let since = reading.off_since.max(self.on_since).min(reading.now);
            self.pause(since, reading.off_reason);
        }
        let bucket = Governor::bucket(&self.terms);
        if credit >= bucket >> LEVELS.saturating_sub(self.level) {
            self.resume(reading.now);
            return Some(Turn::On);
        }
        // A thread that was just aiming a slot may have switched it on again.
        let again = self.watching || hits > 0;
        self.watching = false;
        again.then_some(Turn::Off(reading.off_reason))
    }

    fn pause(&mut self, from: Tsc, reason: PauseReason) {
        let lasted = from.0.saturating_sub(self.on_since.0) as f64;
        self.level = if lasted > LASTED_NS as f64 * self.terms.ticks_per_ns {
            0
        } else {
            (self.level + 1).min(LEVELS)
        };
        self.watching = reason != PauseReason::WatchpointHits;
        self.open = Some((from, reason));
    }

    fn resume(&mut self, now: Tsc) {
        self.on_since = now;
        self.watching = true;
        let Some((from, reason)) = self.open.take() else {
            return;
        };
        let pause = Pause {
            from,
            to: now,
            reason,
        };
        let full = self.pauses.len() >= MOST_PAUSES;
        match self.pauses.last_mut() {
            Some(last) if full => last.to = now,
            _ => self.pauses.push(pause),
        }
    }

    /// All pauses, once the process has ended.
    pub fn into_pauses(mut self, ended: Tsc) -> Vec<Pause> {
        self.resume(ended);
        self.pauses
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TERMS: Terms = Terms {
        share: 0.01,
        bucket_ns: BUCKET_NS,
        ticks_per_ns: 2.0,
        hit_ns: 10_000,
    };
    const MS: u64 = 1_000_000;

    /// A process under a governor, stepped every 10 ms of processor time.
    struct Simulation {
        governor: Governor,
        now: u64,
        cpu_ns: u64,
        hits: u64,
        enabled: bool,
        off_since: u64,
        reason: PauseReason,
        credit: i64,
        /// What tracking has cost.
        cost_ns: u64,
    }

    impl Simulation {
        fn new() -> Simulation {
            Simulation {
                governor: Governor::new(TERMS, Tsc(0)),
                now: 0,
                cpu_ns: 0,
                hits: 0,
                enabled: true,
                off_since: 0,
                reason: PauseReason::Unknown,
                credit: Governor::bucket(&TERMS),
                cost_ns: 0,
            }
        }

        /// Ten milliseconds in which hooks would cost `hooks_ns` and hits would
        /// be `hits`, if recording were on.
        fn step(&mut self, hooks_ns: u64, hits: u64) -> Option<Turn> {
            self.now += 20 * MS;
            self.cpu_ns += 10 * MS;
            if self.enabled {
                // The brake inside: hooks stop paying when nothing is left.
                let left = u64::try_from(self.credit.max(0) / 2).unwrap_or(0);
                let paid = hooks_ns.min(left + 10_000);
                self.credit -= paid as i64 * 2;
                self.cost_ns += paid + hits * TERMS.hit_ns;
                self.hits += hits;
                if self.credit < 0 {
                    (self.enabled, self.off_since) = (false, self.now - 3 * MS);
                    self.reason = PauseReason::Hooks;
                }
            }
            self.governor_sees()
        }

        /// One look of the governor, and what comes of it.
        fn governor_sees(&mut self) -> Option<Turn> {
            let action = self.governor.step(Reading {
                now: Tsc(self.now),
                cpu_ns: self.cpu_ns,
                hits: self.hits,
                enabled: self.enabled,
                off_since: Tsc(self.off_since),
                off_reason: self.reason,
                credit: self.credit,
            });
            self.credit += action.deposit;
            match action.turn {
                Some(Turn::On) => self.enabled = true,
                Some(Turn::Off(reason)) => {
                    self.enabled = false;
                    self.reason = reason;
                }
                None => {}
            }
            action.turn
        }
    }

    #[test]
    fn a_hot_loop_is_held_at_its_share() {
        let mut run = Simulation::new();
        let mut turned_on = 0;
        for _ in 0..10_000 {
            turned_on += u32::from(run.step(8 * MS, 0) == Some(Turn::On));
        }
        let most = BUCKET_NS + run.cpu_ns / 100 + MS;
        assert!(run.cost_ns <= most, "{} of {most}", run.cost_ns);
        // All of it is used, in few long stretches.
        assert!(run.cost_ns * 10 > most * 9, "{} of {most}", run.cost_ns);
        assert!((50..=110).contains(&turned_on), "{turned_on}");
        let pauses = run.governor.into_pauses(Tsc(run.now));
        assert_eq!(pauses.len() as u32, turned_on + 1);
        assert!(pauses.iter().all(|p| p.reason == PauseReason::Hooks));
        assert!(pauses.windows(2).all(|p| p[0].to < p[1].from));
        let paused: u64 = pauses.iter().map(|p| p.to.0 - p.from.0).sum();
        assert!(paused * 100 > run.now * 97, "{paused} of {}", run.now);
    }

    #[test]
    fn a_hammered_location_is_held_at_its_share() {
        let mut run = Simulation::new();
        for _ in 0..10_000 {
            run.step(0, 300);
        }
        // What one step brings in hits may come on top, once a pause.
        let pauses = run.governor.into_pauses(Tsc(run.now));
        let most = BUCKET_NS + run.cpu_ns / 100 + 3 * MS;
        assert!(run.cost_ns <= most, "{} of {most}", run.cost_ns);
        assert!(
            pauses
                .iter()
                .all(|p| p.reason == PauseReason::WatchpointHits)
        );
    }

    #[test]
    fn a_frugal_program_is_never_paused() {
        let mut run = Simulation::new();
        for _ in 0..10_000 {
            assert_eq!(run.step(90_000, 0), None);
        }
        assert_eq!(run.governor.into_pauses(Tsc(run.now)), []);
        assert!(run.credit <= Governor::bucket(&TERMS));
    }

    #[test]
    fn the_watchpoints_follow_a_switch_that_hooks_turned_off() {
        let mut run = Simulation::new();
        while run.enabled {
            run.step(8 * MS, 0);
        }
        // The step that saw it told to turn the watchpoints off, too, and one
        // that fires all the same is told again.
        assert_eq!(run.step(0, 0), None);
        run.hits += 1;
        assert_eq!(
            run.step(0, 0),
            Some(Turn::Off(PauseReason::Hooks)),
            "{run:?}",
            run = run.governor
        );
    }

    #[test]
    fn an_account_that_is_emptied_without_hits_is_not_blamed_on_them() {
        for (hits, reason) in [(0, PauseReason::Hooks), (3, PauseReason::WatchpointHits)] {
            let mut run = Simulation::new();
            run.hits = hits;
            run.credit = -1_000_000;
            assert_eq!(run.governor_sees(), Some(Turn::Off(reason)));
            assert_eq!(run.step(0, 0), None, "the watchpoints are off by now");
        }
    }

    #[test]
    fn a_time_that_cannot_be_is_not_believed() {
        for claimed in [0, u64::MAX] {
            let mut run = Simulation::new();
            run.enabled = false;
            run.off_since = claimed;
            run.credit = -1;
            run.step(0, 0);
            let pauses = run.governor.into_pauses(Tsc(run.now));
            assert!(pauses.iter().all(|p| p.from <= p.to && p.to.0 <= run.now));
        }
    }
}
