//! What an edge costs: the order of a slice.
//!
//! Distances are in tenths of a step. What the order is made for are prefixes: a campaign
//! tracks the first statements of a slice, so those that explain most have to be near.
//! Two things decide that. A statement that is one of many says little: a parameter that
//! hundreds of calls may have given, a field that dozens of statements store. So choices
//! cost, by their logarithm. And a value's way is worth more than its address's way or a
//! function's result, which are farther.
//!
//! Integers only, so that plans are reproducible.
//!
//! Deliberately absent: the graph, contexts, the program.

use sketch_model::DependenceKind;

/// How a dependence is come by. Its number is part of stored graphs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Travel {
    /// What computes a value that is used.
    Value,
    /// What stored the local that is read.
    Definition,
    /// What computes the address that a load, store or copy goes through.
    Base,
    /// What stored, somewhere in the program, the location that is read.
    Memory,
    /// What a called function stored through a parameter.
    OutParameter,
    /// A call that freed the block that is read.
    Freed,
    /// A branch that decides.
    Control,
    /// From a function's body to a call of it.
    Site,
    /// From a thread's routine to where the thread is started.
    Start,
    /// From a parameter to the argument of a call.
    Argument,
    /// From a thread's parameter to what it was given.
    Thread,
    /// What a called function returns.
    Return,
}

pub(crate) const TRAVELS: [Travel; 12] = [
    Travel::Value,
    Travel::Definition,
    Travel::Base,
    Travel::Memory,
    Travel::OutParameter,
    Travel::Freed,
    Travel::Control,
    Travel::Site,
    Travel::Start,
    Travel::Argument,
    Travel::Thread,
    Travel::Return,
];

/// One step to another statement.
pub(crate) const STEP: u32 = 10;
/// Where the frames of a failing stack are listed.
pub(crate) const FRAME_LISTED: u32 = 3 * STEP;
/// From a frame to the one above it, as far as what they depend on goes.
pub(crate) const FRAME: u32 = 3 * STEP;
/// From what reads a block to what freed it: every record is freed somewhere, and most
/// failures are about something else.
const FREED: u32 = 4 * STEP;
/// From a statement to a wait before it.
pub(crate) const WAIT: u32 = 4 * STEP;

impl Travel {
    pub fn kind(self) -> DependenceKind {
        match self {
            Travel::Value | Travel::Definition | Travel::Base => DependenceKind::Data,
            Travel::Memory | Travel::OutParameter => DependenceKind::Memory,
            Travel::Freed => DependenceKind::Free,
            Travel::Control | Travel::Site => DependenceKind::Control,
            Travel::Argument => DependenceKind::Argument,
            Travel::Start | Travel::Thread => DependenceKind::ThreadStart,
            Travel::Return => DependenceKind::Return,
        }
    }

    /// The position in [`TRAVELS`].
    pub fn number(self) -> u32 {
        self as u32
    }

    /// Whether it goes from a function to its callers.
    pub fn is_up(self) -> bool {
        matches!(
            self,
            Travel::Site | Travel::Start | Travel::Argument | Travel::Thread
        )
    }
}

/// What a step costs: `choices` is how many there are of its kind.
pub(crate) fn cost(travel: Travel, same_statement: bool, choices: u32) -> u32 {
    let (other, within) = match travel {
        Travel::Site | Travel::Start => (15, 0),
        Travel::Base | Travel::Return => (20, 10),
        Travel::Freed => (FREED, FREED),
        _ => (STEP, 0),
    };
    let way = if same_statement { within } else { other };
    way + fan_out(travel, choices)
}

/// What a step to a line of a library costs, which is not listed.
pub(crate) fn passing(travel: Travel, same_line: bool, choices: u32) -> u32 {
    let way = if same_line { 0 } else { STEP };
    way + fan_out(travel, choices)
}

/// What it costs that a signal or a lock's other holder is one of several.
pub(crate) fn partner(choices: u32) -> u32 {
    STEP + tenths_of_log2(3, choices)
}

fn fan_out(travel: Travel, choices: u32) -> u32 {
    match travel {
        Travel::Memory | Travel::OutParameter | Travel::Freed => tenths_of_log2(3, choices),
        _ if travel.is_up() => tenths_of_log2(5, choices),
        _ => 0,
    }
}

/// `factor` · log2 `number`, rounded down.
fn tenths_of_log2(factor: u32, number: u32) -> u32 {
    // 2^25 choices to the fifth power are the most that fit.
    let number = u128::from(number.clamp(1, 1 << 25));
    number.pow(factor.min(5)).ilog2()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_choices_never_cost_less() {
        for travel in TRAVELS {
            for same in [false, true] {
                let costs: Vec<u32> = (0..2000).map(|n| cost(travel, same, n)).collect();
                assert!(
                    costs.windows(2).all(|pair| pair[0] <= pair[1]),
                    "{travel:?}"
                );
                assert_eq!(costs[0], costs[1], "{travel:?}");
                let most = cost(travel, same, u32::MAX);
                assert!(most <= costs[1] + 125, "{travel:?}: {most}");
            }
        }
        assert_eq!(cost(Travel::Argument, false, 700), 10 + 47);
        assert_eq!(cost(Travel::Memory, false, 2), 13);
    }

    #[test]
    fn a_value_within_its_statement_is_free() {
        for travel in [Travel::Value, Travel::Definition, Travel::Control] {
            assert_eq!(cost(travel, true, 9), 0);
        }
        assert_eq!(cost(Travel::Base, true, 1), 10);
    }

    #[test]
    fn every_travel_stands_at_its_number() {
        for (position, travel) in (0..).zip(TRAVELS) {
            assert_eq!(travel.number(), position);
        }
    }
}
