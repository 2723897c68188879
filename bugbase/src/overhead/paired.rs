//! Ratios of interleaved pairs: their middle, their spread, and what they can show.
//! Pure.
//!
//! Medians, because a shared machine has outliers. The interval around a median is
//! by order statistics: nothing is assumed about how the ratios are distributed.

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
}

impl Ratios {
    /// `None` without pairs.
    pub fn of(pairs: &[(f64, f64)]) -> Option<Ratios> {
        let mut ratios: Vec<f64> = pairs
            .iter()
            .filter(|(base, _)| *base > 0.0)
            .map(|(base, variant)| variant / base)
            .collect();
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
        })
    }

    /// Of an A/A comparison: the smallest effect that can be told from none.
    pub fn smallest_effect(&self) -> f64 {
        let (low, high) = self.interval;
        (low - 1.0).abs().max((high - 1.0).abs())
    }
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
