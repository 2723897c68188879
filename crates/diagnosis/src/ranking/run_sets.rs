//! Which predictors held in a run, kept small.
//!
//! A population has to keep what each run said, for one reason: whether the run
//! counts may change with the runs of other agents (`votes`). Predictors have
//! numbers, and a sorted list of numbers is written as the gaps between them, seven
//! bits a byte: about one byte a predictor. Runs that say the same share one list.

use std::collections::HashSet;
use std::sync::Arc;

/// A sorted list of predictors' numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Packed(Arc<[u8]>);

impl Packed {
    fn of(numbers: &[u32]) -> Packed {
        let mut bytes = Vec::with_capacity(numbers.len() + 4);
        let mut last = 0;
        for number in numbers {
            let mut gap = number - last;
            last = *number;
            while gap >= 0x80 {
                bytes.push(gap as u8 | 0x80);
                gap >>= 7;
            }
            bytes.push(gap as u8);
        }
        Packed(bytes.into())
    }

    pub fn numbers(&self) -> impl Iterator<Item = u32> {
        let mut bytes = self.0.iter();
        let mut last = 0;
        std::iter::from_fn(move || {
            let (mut gap, mut shift) = (0, 0);
            loop {
                let byte = bytes.next()?;
                gap |= u32::from(byte & 0x7f) << shift;
                shift += 7;
                if byte & 0x80 == 0 {
                    break;
                }
            }
            last += gap;
            Some(last)
        })
    }
}

/// All lists of a population, each once.
#[derive(Clone, Debug, Default)]
pub struct RunSets(HashSet<Packed>);

impl RunSets {
    /// The list of `numbers`, which this sorts.
    pub fn kept(&mut self, numbers: &mut [u32]) -> Packed {
        numbers.sort_unstable();
        let packed = Packed::of(numbers);
        match self.0.get(&packed) {
            Some(known) => known.clone(),
            None => {
                self.0.insert(packed.clone());
                packed
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_reads_back_and_is_kept_once() {
        let mut sets = RunSets::default();
        let numbers = vec![70_000, 0, 1, 127, 128, 300, u32::MAX];
        let packed = sets.kept(&mut numbers.clone());
        let mut sorted = numbers.clone();
        sorted.sort_unstable();
        assert_eq!(packed.numbers().collect::<Vec<_>>(), sorted);
        sorted.reverse();
        assert!(Arc::ptr_eq(&packed.0, &sets.kept(&mut sorted).0));
        assert_eq!(Packed::default().numbers().count(), 0);
    }
}
