//! Ratios of interleaved pairs: their middle, their spread, and what they can show.
//! Pure.
//!
//! Medians, because a shared machine has outliers. The interval around a median is
//! by order statistics: nothing is assumed about how the ratios are distributed.
//! Where only some runs are tracked a median sees none of them: there the sums are
//! compared, which is also what the governor's promise is about.

use serde::{Deserialize, Serialize};

/// A variant's cost over that of the program that ran beside it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Ratios {
    pub pairs: usize,
    pub median: f64,
    /// The middle half.
    pub quartiles: (f64, f64),
    /// Where the true median lies with 95%.
    pub interval: (f64, f64),
    /// The sum of all over the sum of all, and how far off that may be with 95%.
    #[serde(default)]
    pub sums: f64,
    #[serde(default)]
    pub sums_reach: f64,
}

impl Ratios {
    /// `None` without pairs.
    pub fn of(pairs: &[(f64, f64)]) -> Option<Ratios> {
        let pairs: Vec<(f64, f64)> = pairs.iter().filter(|(b, _)| *b > 0.0).copied().collect();
        let mut ratios: Vec<f64> = pairs.iter().map(|(base, variant)| variant / base).collect();
        let (sums, sums_reach) = sums(&pairs);
        ratios.sort_by(f64::total_cmp);
        let count = ratios.len();
        let last = count.checked_sub(1)?;
        let at = |share: f64| ratios[(last as f64 * share).round() as usize];
        // Ranks between which the median lies: half of n, give or take 1.96
        // standard deviations of a fair coin thrown n times.
        let reach = 0.98 * (count as f64).sqrt();
        let low = ((count as f64 / 2.0 - reach).floor() as usize).min(last);
        let high = ((count as f64 / 2.0 + reach).ceil() as usize).min(last);
        Some(Ratios {
            pairs: count,
            median: at(0.5),
            quartiles: (at(0.25), at(0.75)),
            interval: (ratios[low], ratios[high]),
            sums,
            sums_reach,
        })
    }

    /// Of an A/A comparison: the smallest effect that can be distinguished from none.
    pub fn smallest_effect(&self) -> f64 {
        let (low, high) = self.interval;
        (low - 1.0).abs().max((high - 1.0).abs())
    }
}

/// The ratio of two sums over pairs, and 1.96 of its standard errors: those of what the
/// variants differ by from their base times that ratio.
fn sums(pairs: &[(f64, f64)]) -> (f64, f64) {
    let count = pairs.len() as f64;
    let base: f64 = pairs.iter().map(|(base, _)| base).sum();
    let ratio = pairs.iter().map(|(_, variant)| variant).sum::<f64>() / base;
    let off = pairs.iter().map(|(base, variant)| variant - ratio * base);
    let squares: f64 = off.map(|off| off * off).sum();
    let deviation = (squares / (count - 1.0).max(1.0)).sqrt();
    (ratio, 1.96 * deviation * count.sqrt() / base)
}

/// "+1.3% ± 0.4", of the sums.
pub fn percent_of_sums(ratios: &Ratios) -> String {
    let (sums, reach) = (100.0 * (ratios.sums - 1.0), 100.0 * ratios.sums_reach);
    format!("{sums:+.1}% ± {reach:.1}")
}

/// "+1.3%", with the interval behind it.
pub fn percent(ratios: &Ratios) -> String {
    let of = |ratio: f64| format!("{:+.1}", 100.0 * (ratio - 1.0));
    let (low, high) = ratios.interval;
    format!("{}% ({}…{})", of(ratios.median), of(low), of(high))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_middle_and_its_interval_by_hand() {
        // Ratios 0.9, 1.0, … 1.7 against 2.0: nine pairs, ranks 1 and 8 (4.5 ± 2.94).
        let pairs: Vec<(f64, f64)> = (0..9).map(|i| (2.0, 1.8 + 0.2 * f64::from(i))).collect();
        let ratios = Ratios::of(&pairs).unwrap();
        let near = |a: f64, b: f64| (a - b).abs() < 1e-9;
        assert_eq!(ratios.pairs, 9);
        assert!(near(ratios.median, 1.3));
        assert!(near(ratios.quartiles.0, 1.1) && near(ratios.quartiles.1, 1.5));
        assert!(near(ratios.interval.0, 1.0) && near(ratios.interval.1, 1.7));
        assert!(near(ratios.smallest_effect(), 0.7));
        // The differences from 1.3 × 2.0 are −0.8 … 0.8 in steps of 0.2: their squares
        // sum to 2.4, so √(2.4 / 8) = 0.5477, and 1.96 × 0.5477 × 3 / 18 = 0.1789.
        assert!(near(ratios.sums, 1.3));
        assert!((ratios.sums_reach - 0.1789).abs() < 1e-4);
        assert_eq!(percent_of_sums(&ratios), "+30.0% ± 17.9");
        assert_eq!(percent(&ratios), "+30.0% (+0.0…+70.0)");
    }

    #[test]
    fn few_pairs_show_their_extremes() {
        let ratios = Ratios::of(&[(1.0, 1.5), (1.0, 0.5), (1.0, 1.0)]).unwrap();
        assert_eq!(ratios.interval, (0.5, 1.5));
        assert_eq!(Ratios::of(&[]), None);
        assert_eq!(Ratios::of(&[(0.0, 1.0)]), None);
    }
}
