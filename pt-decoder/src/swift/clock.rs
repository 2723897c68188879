//! The time-stamp counter by the timing packets.
//!
//! A TSC packet states it. Between two of them MTC packets count ticks of the
//! crystal, which a TMA packet behind the TSC ties to it (Intel SDM vol. 3C,
//! "Timing packets"). Cycle counts are not used: the time is that of the last
//! packet that states one, and what happened after it happened later.

use sketch_model::{PtFrequency, Tsc};

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Clock {
    frequency: Option<PtFrequency>,
    now: Option<u64>,
    tie: Option<Tie>,
}

/// A counter reading at a tick of the crystal.
#[derive(Clone, Copy, Debug)]
struct Tie {
    tsc: u64,
    /// Ticks since, and the part of the crystal's count that MTC packets show.
    ticks: u64,
    shown: u8,
    /// Ticks since the last one that an MTC packet could show.
    within: u64,
}

impl Clock {
    pub(crate) fn new(frequency: Option<PtFrequency>) -> Self {
        let usable = |it: &PtFrequency| it.crystal > 0 && it.counter > 0 && it.mtc < 16;
        Self {
            frequency: frequency.filter(usable),
            ..Self::default()
        }
    }

    pub(crate) fn now(&self) -> Option<Tsc> {
        self.now.map(Tsc)
    }

    pub(crate) fn tsc(&mut self, tsc: u64) {
        self.now = Some(tsc);
        self.tie = None;
    }

    pub(crate) fn tma(&mut self, ctc: u16, fast: u16) {
        if let (Some(frequency), Some(now)) = (self.frequency, self.now) {
            self.tie = Some(Tie {
                tsc: now.saturating_sub(fast.into()),
                ticks: 0,
                shown: (ctc >> frequency.mtc) as u8,
                within: u64::from(ctc) & ((1 << frequency.mtc) - 1),
            });
        }
    }

    pub(crate) fn mtc(&mut self, shown: u8) {
        let (Some(frequency), Some(tie)) = (self.frequency, &mut self.tie) else {
            return;
        };
        let passed = u64::from(shown.wrapping_sub(tie.shown)) << frequency.mtc;
        tie.ticks += passed.saturating_sub(std::mem::take(&mut tie.within));
        tie.shown = shown;
        let ticks = u128::from(tie.ticks) * u128::from(frequency.counter);
        let since = (ticks / u128::from(frequency.crystal)) as u64;
        let at = tie.tsc.wrapping_add(since);
        self.now = self.now.max(Some(at));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_of_the_crystal_count_on_from_the_counter() {
        let mut clock = Clock::new(Some(PtFrequency {
            mtc: 3,
            nominal: 30,
            crystal: 2,
            counter: 200,
        }));
        assert_eq!(clock.now(), None);
        clock.mtc(7);
        assert_eq!(clock.now(), None);
        clock.tsc(10_000);
        // Bits 3 to 10 of 0xf7fc are 0xff; four ticks of its eight have passed.
        clock.tma(0xf7fc, 50);
        assert_eq!(clock.now(), Some(Tsc(10_000)));
        clock.mtc(0x00);
        assert_eq!(clock.now(), Some(Tsc(10_000 - 50 + 4 * 100)));
        clock.mtc(0x02);
        assert_eq!(clock.now(), Some(Tsc(10_000 - 50 + 20 * 100)));
        clock.tsc(20_000);
        assert_eq!(clock.now(), Some(Tsc(20_000)));
    }
}
