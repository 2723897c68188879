//! The true path, and whether a decoded one is it.

use crate::support::{Step, steps};
use pt_decoder::{CodeImage, ExecutionItem, GapReason};

/// What really happened, in the words of a decoded path. An overflow stands
/// where the processor dropped packets.
pub type Path = Vec<Step>;

pub fn overflow() -> Step {
    Step::Gap(GapReason::Overflow)
}

/// Panics with the first difference. In front of an overflow the decoder may
/// know less than what ran, since the last packets confirm only so much.
pub fn assert_same(truth: &Path, items: &[ExecutionItem], image: &CodeImage, what: &str) {
    let decoded = steps(items, image);
    let stretches = |path: &[Step]| -> Vec<Vec<Step>> {
        path.split(|step| *step == overflow())
            .map(<[Step]>::to_vec)
            .collect()
    };
    let (wanted, got) = (stretches(truth), stretches(&decoded));
    let gaps: Vec<_> = items
        .iter()
        .filter(|item| matches!(item, ExecutionItem::Gap(_)))
        .take(5)
        .collect();
    assert_eq!(wanted.len(), got.len(), "{what}: overflows, {gaps:?}");
    let last = wanted.len() - 1;
    for (number, (wanted, got)) in wanted.iter().zip(&got).enumerate() {
        let differs = wanted.iter().zip(got).position(|(a, b)| a != b);
        if let Some(at) = differs {
            panic!(
                "{what}: stretch {number} differs at step {at}: ran {:x?}, decoded {:x?}",
                &wanted[at.saturating_sub(2)..(at + 3).min(wanted.len())],
                &got[at.saturating_sub(2)..(at + 3).min(got.len())]
            );
        }
        if number == last {
            assert_eq!(
                wanted.len(),
                got.len(),
                "{what}: the path ends {:x?}, decoded {:x?}",
                wanted.last(),
                got.last()
            );
        } else {
            assert!(got.len() <= wanted.len(), "{what}: stretch {number}");
        }
    }
}
