//! Sums over runs that come out the same in any order.
//!
//! Adding numbers with fractions in another order gives another last digit, and
//! two servers that saw the same runs must not differ. Weights are therefore
//! counted in whole parts of a millionth or so ([`PARTS`]); a weight outside
//! what such parts can say is taken to the nearest they can. Sums can also be
//! taken back, exactly, when a run ceases to count (`votes`).

use sketch_model::Support;

/// Parts of a weight of 1.
const PARTS: f64 = (1u64 << 20) as f64;
/// The largest weight: a run that stands for a million.
const LARGEST: f64 = (1u64 << 20) as f64;

/// A number of runs and what they weigh.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sum {
    pub runs: u64,
    weight: u64,
    squares: u128,
}

impl Sum {
    /// One run.
    pub fn one(weight: f64) -> Sum {
        let weight = (weight.clamp(1.0 / PARTS, LARGEST) * PARTS).round() as u64;
        Sum {
            runs: 1,
            weight,
            squares: u128::from(weight) * u128::from(weight),
        }
    }

    pub fn plus(self, other: Sum) -> Sum {
        Sum {
            runs: self.runs + other.runs,
            weight: self.weight + other.weight,
            squares: self.squares + other.squares,
        }
    }

    /// Without runs that are among them.
    pub fn minus(self, other: Sum) -> Sum {
        Sum {
            runs: self.runs - other.runs,
            weight: self.weight - other.weight,
            squares: self.squares - other.squares,
        }
    }

    pub fn weighed(self) -> Weight {
        Weight {
            sum: self.weight as f64 / PARTS,
            squares: self.squares as f64 / (PARTS * PARTS),
        }
    }
}

/// A sum of weights, and of their squares: what a weighted share is worth.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Weight {
    pub sum: f64,
    pub squares: f64,
}

impl Weight {
    pub fn and(self, other: Weight) -> Weight {
        Weight {
            sum: self.sum + other.sum,
            squares: self.squares + other.squares,
        }
    }

    /// How many runs of equal weight would tell as much (Kish).
    pub fn effective(self) -> f64 {
        if self.squares > 0.0 {
            self.sum * self.sum / self.squares
        } else {
            0.0
        }
    }
}

/// How often a predictor gave which answer, in runs and in weight.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Tally {
    pub support: Support,
    /// Weights of the runs in which it held.
    pub failing_true: Weight,
    pub successful_true: Weight,
    pub failing_false: Weight,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_are_the_same_in_any_order_and_can_be_taken_back() {
        let weights = [1.0 / 0.3, 1.0, 7.7, 1.0 / 0.007, f64::MAX, 1e-30];
        let sum = |order: &[f64]| {
            let ones = order.iter().map(|w| Sum::one(*w));
            ones.fold(Sum::default(), Sum::plus)
        };
        let mut reversed = weights;
        reversed.reverse();
        assert_eq!(sum(&weights), sum(&reversed));
        let less = sum(&weights).minus(Sum::one(7.7));
        assert_eq!(less, sum(&[1.0 / 0.3, 1.0, 1.0 / 0.007, f64::MAX, 1e-30]));
    }

    #[test]
    fn whole_weights_are_exact() {
        let three = Sum::one(1.0).plus(Sum::one(2.0)).weighed();
        assert_eq!((three.sum, three.squares), (3.0, 5.0));
    }
}
