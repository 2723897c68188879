//! Which runs get the tracked build, of the share that the server names for them. The others
//! run P, so that its own failure rate stays known.

use crate::process::sys;

/// Counts the runs of one agent. It begins anywhere, so that of agents that run their
/// program once as many run P as of one that runs it again and again.
pub struct Turns(u64);

impl Turns {
    pub fn begin() -> Turns {
        Turns(sys::unique_u64() >> 32)
    }

    /// Whether the next run is among the share.
    pub fn take(&mut self, share: f64) -> bool {
        self.0 += 1;
        gets_a_turn(self.0, share)
    }
}

/// The golden ratio less one.
const GOLDEN: f64 = 0.618_033_988_749_894_9;

/// Whether run number `number` is among the share. Multiples of the golden ratio lie evenly
/// between whole numbers and repeat in no period, so that what a server gives to one run in
/// so many (an audit, the commonest failure) does not fall on runs of P alone.
fn gets_a_turn(number: u64, share: f64) -> bool {
    (number as f64 * GOLDEN).fract() < share
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_kept_over_any_stretch_and_of_what_comes_at_regular_intervals() {
        for share in [0.0, 0.25, 0.5, 0.875, 1.0] {
            for from in [0, 3, 1000, u64::from(u32::MAX)] {
                for step in [1, 2, 8, 16] {
                    let runs = (from..).step_by(step).take(800);
                    let got = runs.filter(|n| gets_a_turn(*n, share)).count() as f64;
                    let off = (got - 800.0 * share).abs();
                    assert!(off <= 16.0, "{share}, every {step}: {got}");
                }
            }
        }
    }

    #[test]
    fn agents_that_run_once_run_p_as_often_as_one_that_runs_again_and_again() {
        let first = (0..4000).filter(|_| Turns::begin().take(0.875)).count();
        // Five standard deviations of a fair draw are 105.
        assert!(first.abs_diff(3500) < 105, "{first} of 4000");
    }
}
