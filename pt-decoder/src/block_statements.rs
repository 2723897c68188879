//! Executed blocks to statements of a build.
//!
//! Which statement lies at an address is `formats::statement_map`'s to say. Here
//! blocks are looked up in it, and what they turn out to be is remembered, since a
//! trace consists of the same blocks over and over.

use crate::{address_hash::AddressHasher, branches::BranchMap, libipt::ExecutedBlock};
use formats::statement_map::StatementMap;
use sketch_model::{MappedCode, RuntimeAddress, StatementId};
use std::{collections::HashMap, hash::BuildHasherDefault};

/// Blocks of one process to statements of one binary in it.
pub struct BlockStatements<'m> {
    map: &'m StatementMap,
    branches: Option<&'m BranchMap>,
    mapped: Vec<MappedCode>,
    known: HashMap<ExecutedBlock, Known, BuildHasherDefault<AddressHasher>>,
    /// Those that were asked for last, by a few bits of their address.
    recent: Vec<(ExecutedBlock, Known)>,
    lists: Vec<StatementId>,
}

/// What a block turned out to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Known {
    /// Where in the lists its statements lie.
    from: u32,
    to: u32,
    /// Its last instruction is a jump of a branch that can be told.
    pub(crate) jump: Option<u32>,
    /// Its last instruction lies in the binary.
    pub(crate) own: bool,
}

/// Blocks that are remembered; a program has fewer, bytes from outside may not.
const MOST_KNOWN: usize = 1 << 20;
/// Of these the last ones are found at once.
const RECENT: usize = 1 << 13;
/// A block of no instructions does not exist.
const NO_BLOCK: (ExecutedBlock, Known) = (
    ExecutedBlock {
        start: RuntimeAddress(0),
        last: RuntimeAddress(0),
        instructions: 0,
    },
    Known {
        from: 0,
        to: 0,
        jump: None,
        own: false,
    },
);

impl<'m> BlockStatements<'m> {
    /// `mapped` are the mappings of the binary.
    pub fn new(map: &'m StatementMap, mapped: Vec<MappedCode>) -> Self {
        Self {
            map,
            branches: None,
            mapped,
            known: HashMap::default(),
            recent: vec![NO_BLOCK; RECENT],
            lists: Vec::new(),
        }
    }

    /// Tells jumps as well.
    pub(crate) fn with_branches(self, branches: Option<&'m BranchMap>) -> Self {
        Self { branches, ..self }
    }

    /// The statements of a block, in the order in which they were executed.
    /// None if its code is that of another file or of no statement.
    pub fn of(&mut self, block: ExecutedBlock) -> &[StatementId] {
        let known = self.known(block);
        self.list(known)
    }

    pub(crate) fn list(&self, known: Known) -> &[StatementId] {
        &self.lists[known.from as usize..known.to as usize]
    }

    #[inline]
    pub(crate) fn known(&mut self, block: ExecutedBlock) -> Known {
        let place = (block.start.0 ^ block.start.0 >> 13) as usize % RECENT;
        let (recent, known) = self.recent[place];
        if recent == block {
            return known;
        }
        let known = match self.known.get(&block) {
            Some(known) => *known,
            None => self.learn(block),
        };
        self.recent[place] = (block, known);
        known
    }

    fn learn(&mut self, block: ExecutedBlock) -> Known {
        if self.known.len() >= MOST_KNOWN {
            self.known.clear();
            self.recent.fill(NO_BLOCK);
            self.lists.clear();
        }
        let from = self.lists.len() as u32;
        let place = self.mapped.iter().find_map(|mapped| {
            let from = self.map.static_address(mapped, block.start)?;
            let last = self.map.static_address(mapped, block.last)?;
            Some((from, last))
        });
        let mut found = Vec::new();
        let mut jump = None;
        if let Some((from, last)) = place {
            self.map.along(from, last, &mut found);
            jump = self.branches.and_then(|it| it.jump_at(last));
        }
        self.lists.extend(found);
        let known = Known {
            from,
            to: self.lists.len() as u32,
            jump,
            own: self.owns(block.last),
        };
        self.known.insert(block, known);
        known
    }

    /// Whether an address lies in the binary.
    pub fn owns(&self, at: RuntimeAddress) -> bool {
        let mut mapped = self.mapped.iter();
        mapped.any(|it| at.0.checked_sub(it.start.0).is_some_and(|n| n < it.length))
    }

    /// The way of its branch that a jump at `at` took, if `next` ran after it.
    pub(crate) fn way(&self, number: u32, at: RuntimeAddress, next: RuntimeAddress) -> Option<Way> {
        let jump = self.branches?.jump(number)?;
        let next = jump.at.wrapping_add(next.0.wrapping_sub(at.0));
        let side = match next {
            _ if next == jump.target => jump.on_target,
            _ if next == jump.next => jump.on_next,
            _ => None,
        };
        side.map(|way| Way {
            branch: jump.branch,
            way,
        })
    }
}

/// A branch of a [`BranchMap`] and one of its ways.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Way {
    pub(crate) branch: u32,
    pub(crate) way: u8,
}
