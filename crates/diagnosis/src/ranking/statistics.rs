//! The few statistics that the ranking rests on.
//!
//! Recurrences of a failure are few, so nothing here is asymptotic: Wilson's
//! interval behaves at 2 of 2 (where the textbook interval has width 0), and
//! Fisher's exact test counts tables instead of approximating them.

use statrs::function::factorial::ln_binomial;

/// The two-sided 95% point of the normal distribution.
const Z_95: f64 = 1.959_963_984_540_054;

/// Wilson's 95% interval of a share among `trials` observations. Weighted shares
/// pass their effective number of observations, which need not be whole.
pub fn wilson(share: f64, trials: f64) -> (f64, f64) {
    if trials.is_nan() || trials <= 0.0 {
        return (0.0, 1.0);
    }
    let z2 = Z_95 * Z_95;
    let denominator = 1.0 + z2 / trials;
    let centre = (share + z2 / (2.0 * trials)) / denominator;
    let spread = share * (1.0 - share) / trials + z2 / (4.0 * trials * trials);
    let half = Z_95 * spread.sqrt() / denominator;
    ((centre - half).max(0.0), (centre + half).min(1.0))
}

/// Fisher's exact test, one-sided: how likely a predictor that has nothing to do
/// with the failure holds in at least `failing_true` of the failing runs, given
/// in how many runs it holds at all.
pub fn fisher(
    failing_true: u64,
    failing_false: u64,
    successful_true: u64,
    successful_false: u64,
) -> f64 {
    let table = Table {
        failing: failing_true + failing_false,
        successful: successful_true + successful_false,
        holds: failing_true + successful_true,
    };
    // Nothing is lost by adding from the outside in: beyond its middle the
    // distribution only falls, and before it the other side is what is small.
    let runs = table.failing + table.successful;
    if u128::from(failing_true) * u128::from(runs)
        > u128::from(table.failing) * u128::from(table.holds)
    {
        table.at_least(failing_true).min(1.0)
    } else {
        match failing_true.checked_sub(1) {
            Some(below) => (1.0 - table.at_most(below)).clamp(0.0, 1.0),
            None => 1.0,
        }
    }
}

/// The margins of a table: in how many of `failing` runs something holds that
/// holds in `holds` of all is hypergeometric.
struct Table {
    failing: u64,
    successful: u64,
    holds: u64,
}

/// A term that no longer changes a sum.
const NEGLIGIBLE: f64 = 1e-17;

impl Table {
    fn chance(&self, held: u64) -> f64 {
        let Some(elsewhere) = self.holds.checked_sub(held) else {
            return 0.0;
        };
        if held > self.failing || elsewhere > self.successful {
            return 0.0;
        }
        let all = ln_binomial(self.failing + self.successful, self.holds);
        let these = ln_binomial(self.failing, held) + ln_binomial(self.successful, elsewhere);
        (these - all).exp()
    }

    /// From each term the next by their ratio.
    fn at_least(&self, held: u64) -> f64 {
        let mut term = self.chance(held);
        let mut sum = term;
        for k in held..self.failing.min(self.holds) {
            let up = (self.failing - k) as f64 * (self.holds - k) as f64;
            let down = (k + 1) as f64 * (self.successful + k + 1 - self.holds) as f64;
            term *= up / down;
            sum += term;
            if term < sum * NEGLIGIBLE {
                break;
            }
        }
        sum
    }

    fn at_most(&self, held: u64) -> f64 {
        let mut term = self.chance(held);
        let mut sum = term;
        let least = self.holds.saturating_sub(self.successful);
        for k in (least + 1..=held).rev() {
            let down = k as f64 * (self.successful + k - self.holds) as f64;
            let up = (self.failing - k + 1) as f64 * (self.holds - k + 1) as f64;
            term *= down / up;
            sum += term;
            if term < sum * NEGLIGIBLE {
                break;
            }
        }
        sum
    }
}

/// F with β = 0.5: the harmonic mean of precision and recall in which precision
/// counts more, because a wrong cause costs its reader more than a missed one.
pub fn f_half(precision: f64, recall: f64) -> f64 {
    let beta2 = 0.25;
    let denominator = beta2 * precision + recall;
    if denominator > 0.0 {
        (1.0 + beta2) * precision * recall / denominator
    } else {
        0.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a perfect predictor proves after a few failures.
    #[test]
    fn few_recurrences_prove_little() {
        let lower = |n: f64| (wilson(1.0, n).0 * 100.0).round() / 100.0;
        assert_eq!(lower(2.0), 0.34);
        assert_eq!(lower(9.0), 0.70);
        assert_eq!(wilson(1.0, 9.0).1, 1.0);
        assert_eq!(wilson(0.5, 0.0), (0.0, 1.0));
    }

    #[test]
    fn successful_runs_make_a_perfect_predictor_significant() {
        let perfect = |failing, successful| fisher(failing, 0, 0, successful);
        assert!((perfect(2, 41) - 1.0 / 903.0).abs() < 1e-9);
        assert!((perfect(2, 1000) - 1.0 / 501_501.0).abs() < 1e-12);
    }

    #[test]
    fn fisher_on_a_table_worked_by_hand() {
        // 3 of 4 failing, 1 of 4 successful: (C(4,3)·C(4,1) + C(4,4)·C(4,0)) / C(8,4)
        assert!((fisher(3, 1, 1, 3) - 17.0 / 70.0).abs() < 1e-9);
        assert_eq!(fisher(0, 5, 3, 2), 1.0);
        assert_eq!(fisher(5, 0, 5, 0), 1.0);
        assert_eq!(fisher(0, 0, 0, 0), 1.0);
    }

    /// Against the sum of all terms, each from its factorials.
    #[test]
    fn fisher_is_the_sum_of_the_tables_that_are_as_extreme() {
        for failing in 0..9u64 {
            for successful in 0..9u64 {
                for (t, s) in (0..=failing).flat_map(|t| (0..=successful).map(move |s| (t, s))) {
                    let holds = t + s;
                    let table = Table {
                        failing,
                        successful,
                        holds,
                    };
                    let all: f64 = (t..=failing.min(holds)).map(|k| table.chance(k)).sum();
                    let found = fisher(t, failing - t, s, successful - s);
                    let what = (failing, successful, t, s);
                    assert!(
                        (found - all.min(1.0)).abs() < 1e-12,
                        "{what:?}: {found} {all}"
                    );
                }
            }
        }
        // Large tables, by the same symmetry as small ones.
        assert!((fisher(500, 500, 50_000, 50_000) - 0.5).abs() < 0.02);
        assert!(fisher(1_000, 0, 0, 99_000) < 1e-300);
        assert_eq!(fisher(1, 999, 99_000, 0), 1.0);
    }

    #[test]
    fn f_favours_precision() {
        assert_eq!(f_half(1.0, 1.0), 1.0);
        assert_eq!(f_half(0.0, 0.0), 0.0);
        assert!(f_half(0.9, 0.5) > f_half(0.5, 0.9));
        assert!((f_half(0.5, 1.0) - 0.625 / 1.125).abs() < 1e-12);
    }
}
