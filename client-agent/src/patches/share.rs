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

/// Whether run number `number` is among the share: spread evenly, and exact over
/// any stretch of runs.
fn gets_a_turn(number: u64, share: f64) -> bool {
    let before = number as f64 * share;
    (before + share).floor() > before.floor()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_exact_over_any_stretch() {
        for share in [0.0, 0.25, 0.5, 0.875, 1.0] {
            for from in [0, 3, 1000, u64::from(u32::MAX)] {
                let turns = (from..from + 800).filter(|n| gets_a_turn(*n, share));
                let got = turns.count() as f64;
                assert!((got - 800.0 * share).abs() <= 1.0, "{share}: {got}");
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
