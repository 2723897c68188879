//! What lies on either side of each two-way branch: code that can only have run
//! if the branch went that way.
//!
//! A processor's trace shows machine jumps and machine code. Which way of the
//! source's branch a machine jump is cannot be read off the jump: the optimiser
//! inverts conditions, and makes one branch several or none. What it keeps is
//! where instructions come from, so a way is recognised by the places (statement
//! and column) that no run can reach but through it.
//!
//! A block lies on one side if it can be reached through that side, and neither
//! through the other nor from the function's entry, without passing the branch
//! again. A place that also occurs elsewhere in the function identifies nothing.
//!
//! Deliberately absent: switches, whose ways are numbered by value; and branches
//! that share their place with another one of the function.

use crate::ir::program::{BlockId, Function, FunctionId, InstructionId, Op, Program};
use sketch_model::StatementId;
use std::collections::{HashMap, VecDeque};

/// What is kept of a side: the nearest is what comes first.
const MOST_PLACES: usize = 64;
const MOST_STATEMENTS: usize = 8;

/// A place in the source by which machine code is recognised.
pub type CodePlace = (StatementId, u32);

/// A branch, and the places that distinguish its two ways.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BranchSides {
    pub statement: StatementId,
    pub column: u32,
    /// For the way of the condition that holds (0) and of the other (1), nearest
    /// first.
    pub places: [Vec<CodePlace>; 2],
    /// Statements that lie on one side as a whole.
    pub statements: [Vec<StatementId>; 2],
}

impl Program {
    /// The two-way branches of the program, in the order of its functions.
    pub fn branch_sides(&self) -> Vec<BranchSides> {
        let mut found = Vec::new();
        for (number, function) in (0..).zip(&self.functions) {
            of_function(self, number, function, &mut found);
        }
        found
    }
}

fn of_function(
    program: &Program,
    number: FunctionId,
    function: &Function,
    found: &mut Vec<BranchSides>,
) {
    let mut branches: HashMap<CodePlace, Vec<InstructionId>> = HashMap::new();
    // In how many instructions of the function each place and statement occurs.
    let mut places: HashMap<CodePlace, usize> = HashMap::new();
    let mut statements: HashMap<StatementId, usize> = HashMap::new();
    for (id, instruction) in (0..).zip(&function.instructions) {
        let Some(statement) = instruction.statement else {
            continue;
        };
        let place = (statement, instruction.column);
        *places.entry(place).or_default() += 1;
        *statements.entry(statement).or_default() += 1;
        if instruction.op == Op::Branch {
            branches.entry(place).or_default().push(id);
        }
    }
    let mut single: Vec<(InstructionId, CodePlace)> = branches
        .into_iter()
        .filter_map(|(place, ids)| match ids.as_slice() {
            [only] => Some((*only, place)),
            _ => None,
        })
        .collect();
    single.sort_unstable();
    for (id, (statement, column)) in single {
        let block = function.instructions[id as usize].block;
        let [on_true, on_false] = function.blocks[block as usize].successors[..] else {
            continue;
        };
        let reached = [on_true, on_false, 0].map(|from| reachable(function, from, block));
        let side = |way: usize, other: usize| {
            let elsewhere = |at: &BlockId| reached[other].has(*at) || reached[2].has(*at);
            let blocks = reached[way].order.iter().filter(|at| !elsewhere(at));
            nearest(function, blocks.copied(), &places, &statements)
        };
        let [(true_places, true_whole), (false_places, false_whole)] = [side(0, 1), side(1, 0)];
        let here = |id: &StatementId| program.members(*id).iter().all(|at| at.function == number);
        let whole = |mut ids: Vec<StatementId>| {
            ids.retain(here);
            ids
        };
        found.push(BranchSides {
            statement,
            column,
            places: [true_places, false_places],
            statements: [whole(true_whole), whole(false_whole)],
        });
    }
}

/// The first places and statements of blocks that lie in these blocks alone.
fn nearest(
    function: &Function,
    blocks: impl Iterator<Item = BlockId>,
    places: &HashMap<CodePlace, usize>,
    statements: &HashMap<StatementId, usize>,
) -> (Vec<CodePlace>, Vec<StatementId>) {
    let mut of_places: HashMap<CodePlace, usize> = HashMap::new();
    let mut of_statements: HashMap<StatementId, usize> = HashMap::new();
    let (mut near_places, mut near_statements) = (Vec::new(), Vec::new());
    for block in blocks {
        let block = &function.blocks[block as usize];
        for at in block.first..block.end {
            let instruction = &function.instructions[at as usize];
            let Some(statement) = instruction.statement else {
                continue;
            };
            let place = (statement, instruction.column);
            let count = of_places.entry(place).or_default();
            *count += 1;
            if *count == places[&place] {
                near_places.push(place);
            }
            let count = of_statements.entry(statement).or_default();
            *count += 1;
            if *count == statements[&statement] {
                near_statements.push(statement);
            }
        }
        if near_places.len() >= MOST_PLACES {
            break;
        }
    }
    near_places.truncate(MOST_PLACES);
    near_statements.truncate(MOST_STATEMENTS);
    (near_places, near_statements)
}

/// Blocks, nearest first.
struct Reached {
    order: Vec<BlockId>,
    seen: Vec<bool>,
}

impl Reached {
    fn has(&self, block: BlockId) -> bool {
        self.seen[block as usize]
    }
}

/// The blocks that can be reached from `from`, itself included, without passing
/// through `without`; exceptions count as ways.
fn reachable(function: &Function, from: BlockId, without: BlockId) -> Reached {
    let mut reached = Reached {
        order: Vec::new(),
        seen: vec![false; function.blocks.len()],
    };
    let mut work = VecDeque::from([from]);
    while let Some(at) = work.pop_front() {
        if at == without || std::mem::replace(&mut reached.seen[at as usize], true) {
            continue;
        }
        reached.order.push(at);
        let block = &function.blocks[at as usize];
        work.extend(block.successors.iter().chain(&block.unwind));
    }
    reached
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::program::{Block, Instruction};

    /// Blocks of one instruction each: a branch where there are two successors.
    /// The place of a block is its number, unless `shared` says otherwise.
    fn function(successors: &[&[BlockId]], shared: &[(usize, u32)]) -> Function {
        let mut function = Function::default();
        for (number, next) in successors.iter().enumerate() {
            let id = number as u32;
            let place = shared.iter().find(|(at, _)| *at == number);
            function.instructions.push(Instruction {
                op: if next.len() == 2 {
                    Op::Branch
                } else {
                    Op::Other
                },
                first_operand: 0,
                operand_count: 0,
                statement: Some(StatementId(place.map_or(id, |(_, as_place)| *as_place))),
                column: 1,
                block: id,
            });
            function.blocks.push(Block {
                first: id,
                end: id + 1,
                successors: next.to_vec(),
                ..Block::default()
            });
        }
        function
    }

    fn sides(successors: &[&[BlockId]], shared: &[(usize, u32)]) -> Vec<[Vec<u32>; 2]> {
        let mut found = Vec::new();
        of_function(
            &Program::without_code(),
            0,
            &function(successors, shared),
            &mut found,
        );
        let numbers = |side: &Vec<CodePlace>| side.iter().map(|(id, _)| id.0).collect();
        let both = |it: &BranchSides| [numbers(&it.places[0]), numbers(&it.places[1])];
        found.iter().map(both).collect()
    }

    #[test]
    fn arms_tell_and_what_follows_both_does_not() {
        // 0 → 1 | 2; both → 3
        assert_eq!(
            sides(&[&[1, 2], &[3], &[3], &[]], &[]),
            [[vec![1], vec![2]]]
        );
        // Without an else.
        assert_eq!(sides(&[&[1, 2], &[2], &[]], &[]), [[vec![1], vec![]]]);
    }

    #[test]
    fn a_loop_is_left_only_through_its_condition() {
        // 0 → 1; 1 → 2 | 3; 2 → 1
        assert_eq!(
            sides(&[&[1], &[2, 3], &[1], &[]], &[]),
            [[vec![2], vec![3]]]
        );
    }

    #[test]
    fn code_that_a_jump_reaches_past_the_branch_tells_nothing() {
        // 0 → 1 | 3; 1 → 2 | 4; 3 → 2: block 2 does not need branch 1.
        let found = sides(&[&[1, 3], &[2, 4], &[], &[2], &[]], &[]);
        assert_eq!(found[1], [vec![], vec![4]]);
    }

    #[test]
    fn a_place_on_both_sides_tells_nothing() {
        let found = sides(&[&[1, 2], &[3], &[3], &[]], &[(2, 1)]);
        assert_eq!(found, [[Vec::<u32>::new(), vec![]]]);
    }

    #[test]
    fn two_branches_at_one_place_are_left_out() {
        // a && b, both at one column (a macro).
        let found = sides(&[&[1, 3], &[2, 3], &[3], &[]], &[(1, 0)]);
        assert_eq!(found, Vec::<[Vec<u32>; 2]>::new());
    }
}
