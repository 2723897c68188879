//! Branches of the source in machine code: which jump belongs to which branch, and
//! which outcome each of its sides is.
//!
//! A conditional jump belongs to the branch whose place (statement and column)
//! the line table gives it. A side is identified by what comes next: following the
//! code from either side of the jump, the first place that only one way can reach
//! decides (the caller knows these places from the program before optimisation). If
//! only one side can be identified, the other is the remaining way. A jump may lead
//! to another jump of the same branch; then it decides nothing yet. If some jump of a
//! branch cannot be identified, the whole branch is left out: to say which way it did
//! not go, every jump must be understood.
//!
//! Deliberately absent: jump tables, and branches that became no jump (`cmov`,
//! folded conditions).

use formats::statement_map::StatementMap;
use iced_x86::{Decoder, DecoderOptions, FlowControl, Instruction};
use object::{Object, ObjectSegment};
use serde::{Deserialize, Serialize};
use sketch_model::{StatementId, StaticAddress};
use std::collections::{BTreeMap, HashMap, HashSet};

/// Instructions that are followed from a jump.
const FOLLOWED: usize = 64;

/// A two-way branch and the places that distinguish its ways.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BranchPlaces {
    pub statement: StatementId,
    pub column: u32,
    /// Places in the source that only this way can reach.
    pub ways: [Vec<(StatementId, u32)>; 2],
    /// Whole statements that only this way can reach.
    pub statements: [Vec<StatementId>; 2],
}

/// A conditional jump: which way of its branch each side is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Jump {
    pub(crate) at: u64,
    pub(crate) target: u64,
    pub(crate) next: u64,
    /// Position in [`BranchMap::branches`].
    pub(crate) branch: u32,
    /// `None` where another jump of the branch follows.
    pub(crate) on_target: Option<u8>,
    pub(crate) on_next: Option<u8>,
}

/// A branch that is recognised in the machine code.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Branch {
    pub(crate) statement: StatementId,
    pub(crate) column: u32,
    /// How many jumps it became.
    jumps: u32,
    /// Statements that only run if it went a way, by way.
    pub(crate) statements: [Vec<StatementId>; 2],
}

/// The branches of one binary by the addresses of their jumps.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct BranchMap {
    /// By address.
    jumps: Vec<Jump>,
    pub(crate) branches: Vec<Branch>,
}

impl BranchMap {
    /// `binary` is the file that `map` was made from.
    pub fn new(binary: &[u8], map: &StatementMap, branches: &[BranchPlaces]) -> Self {
        let Ok(file) = object::File::parse(binary) else {
            return Self::default();
        };
        let code = Code::of(&file);
        let wanted: HashMap<_, _> = branches
            .iter()
            .zip(0u32..)
            .map(|(branch, number)| ((branch.statement, branch.column), number))
            .collect();
        let mut found: BTreeMap<u32, Vec<(Instruction, [Side; 2])>> = BTreeMap::new();
        let mut unclear: HashSet<u32> = HashSet::new();
        for row in map.rows() {
            let Some(number) = wanted.get(&(row.statement, row.column)) else {
                continue;
            };
            let branch = &branches[*number as usize];
            for instruction in code.instructions(row.from, row.to) {
                match instruction.flow_control() {
                    FlowControl::ConditionalBranch => {
                        let starts = [instruction.near_branch_target(), instruction.next_ip()];
                        let sides = starts.map(|at| side(at, &code, map, branch));
                        found.entry(*number).or_default().push((instruction, sides));
                    }
                    FlowControl::IndirectBranch => {
                        unclear.insert(*number);
                    }
                    _ => {}
                }
            }
        }
        let mut made = Self::default();
        for (number, jumps) in found {
            if unclear.contains(&number) {
                continue;
            }
            let Some(ways) = jumps
                .iter()
                .map(|it| ways(it.1))
                .collect::<Option<Vec<_>>>()
            else {
                continue;
            };
            let branch = &branches[number as usize];
            let position = made.branches.len() as u32;
            made.branches.push(Branch {
                statement: branch.statement,
                column: branch.column,
                jumps: jumps.len() as u32,
                statements: branch.statements.clone(),
            });
            for ((instruction, _), [on_target, on_next]) in jumps.iter().zip(ways) {
                made.jumps.push(Jump {
                    at: instruction.ip(),
                    target: instruction.near_branch_target(),
                    next: instruction.next_ip(),
                    branch: position,
                    on_target,
                    on_next,
                });
            }
        }
        made.jumps.sort_by_key(|jump| jump.at);
        made
    }

    /// How many jumps a recognised branch became; 0 if it is not recognised.
    pub fn jumps_of(&self, statement: StatementId, column: u32) -> u32 {
        let same = |it: &&Branch| (it.statement, it.column) == (statement, column);
        self.branches.iter().find(same).map_or(0, |it| it.jumps)
    }

    /// The branches that are recognised.
    pub fn told(&self) -> impl Iterator<Item = (StatementId, u32)> {
        self.branches.iter().map(|it| (it.statement, it.column))
    }

    pub(crate) fn jump_at(&self, at: StaticAddress) -> Option<u32> {
        let found = self.jumps.binary_search_by_key(&at.0, |jump| jump.at);
        found.ok().map(|position| position as u32)
    }

    pub(crate) fn jump(&self, number: u32) -> Option<&Jump> {
        self.jumps.get(number as usize)
    }
}

/// What one side of a jump leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    /// Code of this way.
    Way(u8),
    /// Another jump of the branch.
    Undecided,
    /// Code that either way can reach.
    Unknown,
}

/// The ways of the two sides; `None` if they cannot be identified.
fn ways(sides: [Side; 2]) -> Option<[Option<u8>; 2]> {
    Some(match sides {
        [Side::Way(a), Side::Way(b)] => [Some(a), Some(b)],
        [Side::Way(a), Side::Unknown] => [Some(a), Some(1 - a)],
        [Side::Unknown, Side::Way(b)] => [Some(1 - b), Some(b)],
        [Side::Way(a), Side::Undecided] => [Some(a), None],
        [Side::Undecided, Side::Way(b)] => [None, Some(b)],
        [Side::Undecided, Side::Undecided] => [None, None],
        [Side::Unknown, _] | [_, Side::Unknown] => return None,
    })
}

fn side(from: u64, code: &Code<'_>, map: &StatementMap, branch: &BranchPlaces) -> Side {
    let own = (branch.statement, branch.column);
    let (mut at, mut left) = (from, FOLLOWED);
    while left > 0 {
        let Some(instruction) = code.instructions(at, at + 1).next() else {
            return Side::Unknown;
        };
        left -= 1;
        let place = map.place_at(StaticAddress(at));
        if let Some(place) = place {
            for (way, places) in (0u8..).zip(&branch.ways) {
                if places.contains(&place) {
                    return Side::Way(way);
                }
            }
        }
        at = match instruction.flow_control() {
            FlowControl::Next | FlowControl::Call | FlowControl::IndirectCall => {
                instruction.next_ip()
            }
            FlowControl::UnconditionalBranch => instruction.near_branch_target(),
            FlowControl::ConditionalBranch if place == Some(own) => return Side::Undecided,
            _ => return Side::Unknown,
        };
    }
    Side::Unknown
}

/// The code of a file by its addresses.
struct Code<'b>(Vec<(u64, &'b [u8])>);

impl<'b> Code<'b> {
    fn of(file: &object::File<'b>) -> Self {
        let pieces = file.segments().filter_map(|segment| {
            let data = segment.data().ok()?;
            Some((segment.address(), data))
        });
        Self(pieces.collect())
    }

    /// The instructions that begin within a range, one behind the other.
    fn instructions(&self, from: u64, to: u64) -> impl Iterator<Item = Instruction> + use<'b> {
        let bytes = self.0.iter().find_map(|(start, bytes)| {
            let within = usize::try_from(from.checked_sub(*start)?).ok()?;
            bytes.get(within..).filter(|rest| !rest.is_empty())
        });
        let bytes = bytes.unwrap_or_default();
        let mut decoder = Decoder::with_ip(64, bytes, from, DecoderOptions::NONE);
        std::iter::from_fn(move || {
            if !decoder.can_decode() || decoder.ip() >= to {
                return None;
            }
            let instruction = decoder.decode();
            (!instruction.is_invalid()).then_some(instruction)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_side_that_tells_nothing_is_the_way_that_is_left() {
        use Side::*;
        assert_eq!(ways([Way(1), Unknown]), Some([Some(1), Some(0)]));
        assert_eq!(ways([Unknown, Way(1)]), Some([Some(0), Some(1)]));
        // Both lead to the loop's body: a check that the optimiser added.
        assert_eq!(ways([Way(0), Way(0)]), Some([Some(0), Some(0)]));
        assert_eq!(ways([Undecided, Way(1)]), Some([None, Some(1)]));
        assert_eq!(ways([Unknown, Undecided]), None);
        assert_eq!(ways([Unknown, Unknown]), None);
    }
}
