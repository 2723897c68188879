//! Which statement a watchpoint hit belongs to.
//!
//! The processor traps *after* the access, so the program counter of a hit is
//! that of the next instruction. The instruction before it cannot be found by
//! stepping back (x86 instructions have no fixed length); its function is
//! decoded from the start instead, see [`super::instruction`].
//!
//! A hit inside a library (`memset`, `free`) says nothing about the program's
//! source by its own address. It is attributed to the innermost return address
//! into the program that the captured piece of stack holds. A word counts as a
//! return address only if a call instruction ends where it points. A *stale*
//! return address, left in a slot that the library has not overwritten, passes
//! that test too; therefore such a hit has no effect and no value (it becomes a
//! call that touched the location, see [`super::trace`]) and never makes an
//! order predictor hold.
//!
//! Deliberately absent: files and debug info. What they say is an [`AddressMap`].

use super::instruction::{self, AccessEffect};
use formats::address_map::AddressMap;
use sketch_model::{Mapping, RuntimeAddress, StatementId, StaticAddress, WatchHit};
use std::collections::BTreeMap;

/// How far up a captured stack a return address is looked for.
const STACK_WORDS: usize = 512;

/// What is known of the access behind a hit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Attribution {
    pub candidates: Vec<StatementId>,
    /// `None` if the access was made inside a library or the instruction does
    /// not tell.
    pub effect: Option<AccessEffect>,
    /// What to add to a static address of the program to get a runtime one.
    pub bias: u64,
}

/// Attributes hits, remembering what it has found for each address.
pub struct Attributor<'a> {
    mappings: &'a [Mapping],
    code: &'a AddressMap,
    accesses: BTreeMap<StaticAddress, Attribution>,
    return_addresses: BTreeMap<u64, Option<Vec<StatementId>>>,
}

impl<'a> Attributor<'a> {
    pub fn new(mappings: &'a [Mapping], code: &'a AddressMap) -> Self {
        Attributor {
            mappings,
            code,
            accesses: BTreeMap::new(),
            return_addresses: BTreeMap::new(),
        }
    }

    pub fn attribute(&mut self, hit: &WatchHit) -> Attribution {
        match self.locate(hit.after_pc) {
            Some(after) => {
                let mut found = self.access_before(after);
                found.bias = hit.after_pc.0.wrapping_sub(after.0);
                found
            }
            None => Attribution {
                candidates: self.caller(&hit.stack).unwrap_or_default(),
                ..Attribution::default()
            },
        }
    }

    fn locate(&self, address: RuntimeAddress) -> Option<StaticAddress> {
        // An access can end exactly where its mapping ends, hence `<=`.
        let mapping = self
            .mappings
            .iter()
            .find(|m| m.start <= address && address < m.end)
            .or_else(|| self.mappings.iter().find(|m| m.end == address))?;
        self.code.locate(mapping, address)
    }

    fn access_before(&mut self, after: StaticAddress) -> Attribution {
        if let Some(known) = self.accesses.get(&after) {
            return known.clone();
        }
        let found = self.decode_access(after);
        self.accesses.insert(after, found.clone());
        found
    }

    fn decode_access(&self, after: StaticAddress) -> Attribution {
        let within = StaticAddress(after.0.wrapping_sub(1));
        let Some(function) = self.code.function_at(within) else {
            return Attribution::default();
        };
        let Some(access) = instruction::access_ending_at(function, after) else {
            return Attribution::default();
        };
        let places = std::iter::once(access.at).chain(access.or_at);
        let mut candidates: Vec<_> = places.filter_map(|at| self.code.statement_at(at)).collect();
        candidates.sort_unstable();
        candidates.dedup();
        Attribution {
            candidates,
            effect: access.effect,
            bias: 0,
        }
    }

    fn caller(&mut self, stack: &[u64]) -> Option<Vec<StatementId>> {
        for word in stack.iter().take(STACK_WORDS) {
            if !self.return_addresses.contains_key(word) {
                let found = self.call_returning_to(RuntimeAddress(*word));
                self.return_addresses.insert(*word, found);
            }
            if let Some(Some(found)) = self.return_addresses.get(word) {
                return Some(found.clone());
            }
        }
        None
    }

    fn call_returning_to(&self, address: RuntimeAddress) -> Option<Vec<StatementId>> {
        let after = self.locate(address)?;
        let within = StaticAddress(after.0.checked_sub(1)?);
        let function = self.code.function_at(within)?;
        let is_call = instruction::call_ends_at(function, after);
        is_call.then(|| self.code.statement_at(within).into_iter().collect())
    }
}
