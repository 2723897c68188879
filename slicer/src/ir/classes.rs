//! C++ classes as far as virtual calls need them: tables and bases.
//!
//! A class is known by its mangled name without prefix: `_ZTV5Shape` is the
//! table of `5Shape`, `_ZTI6Circle` names its bases in its initial value. A
//! virtual call knows its slot and, where debug info gives the object's type,
//! its class; what it may call is what the tables of that class and of all that
//! derive from it hold in the slot. Without a class, or without run-time type
//! information, every table counts, and the slot and signature choose.
//!
//! Deliberately absent: which classes are ever made. clang emits the tables of
//! inline classes only where a constructor is used, which is close to it.

use crate::ir::program::{Function, FunctionId};
use rustc_hash::FxHashMap as HashMap;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// Classes derive from classes; type information from outside could do so
/// without end.
const MAX_NESTING: u32 = 16;

/// A call through a table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct VirtualCall {
    pub slot: u32,
    /// The static type of the object, if known.
    pub class: Option<String>,
}

/// The functions of one table; a class has one for each base that brings its own.
pub(crate) type Slots = Vec<Option<FunctionId>>;

#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Classes {
    tables: HashMap<String, Vec<Slots>>,
    bases: HashMap<String, Vec<String>>,
}

impl Classes {
    pub fn add_table(&mut self, class: &str, groups: Vec<Slots>) {
        self.tables.entry(class.to_owned()).or_insert(groups);
    }

    pub fn add_bases(&mut self, class: &str, bases: Vec<String>) {
        self.bases.entry(class.to_owned()).or_insert(bases);
    }

    /// Every function of every table.
    pub fn functions(&self) -> impl Iterator<Item = FunctionId> {
        let slots = self.tables.values().flatten().flatten();
        slots.filter_map(|id| *id)
    }

    /// Whether one class is the other or derives from it.
    pub fn is_a(&self, class: &str, base: &str) -> bool {
        let mut seen = BTreeSet::new();
        let mut work = vec![class];
        while let Some(class) = work.pop() {
            if class == base {
                return true;
            }
            if seen.insert(class) {
                let bases = self.bases.get(class).into_iter().flatten();
                work.extend(bases.map(String::as_str));
            }
        }
        false
    }

    /// What a virtual call may call; empty if no table fits.
    pub fn candidates(
        &self,
        call: &VirtualCall,
        signature: &str,
        functions: &[Function],
    ) -> BTreeSet<FunctionId> {
        let fits = |id: &FunctionId| {
            let function = &functions[*id as usize];
            function.signature == signature && function.is_defined()
        };
        let in_slot = |base: Option<&str>| -> BTreeSet<FunctionId> {
            let tables = self.tables.iter();
            let groups = tables.flat_map(|(class, groups)| self.groups(class, groups, base));
            let found = groups.filter_map(|slots| *slots.get(call.slot as usize)?);
            found.filter(fits).collect()
        };
        let narrow = call.class.as_deref().map(|base| in_slot(Some(base)));
        narrow
            .filter(|found| !found.is_empty())
            .unwrap_or_else(|| in_slot(None))
    }

    /// Of a class's tables those that serve as the table of a base.
    fn groups<'a>(&self, class: &str, groups: &'a [Slots], base: Option<&str>) -> Vec<&'a Slots> {
        let Some(base) = base else {
            return groups.iter().collect();
        };
        if !self.is_a(class, base) {
            return Vec::new();
        }
        let layout = self.layout(class, MAX_NESTING);
        if layout.len() != groups.len() {
            return groups.iter().collect();
        }
        let serves = layout.iter().map(|served| served.contains(base));
        let pairs = groups.iter().zip(serves);
        pairs
            .filter(|(_, serves)| *serves)
            .map(|(g, _)| g)
            .collect()
    }

    /// For each table of a class, the classes whose table it is: the first is
    /// shared with the first base that has tables, the others come from the
    /// bases in order (Itanium C++ ABI, 2.5.3). Virtual bases are not modelled;
    /// the number of tables then differs, and all of them count.
    fn layout(&self, class: &str, depth: u32) -> Vec<BTreeSet<&str>> {
        let mut result: Vec<BTreeSet<&str>> = Vec::new();
        let bases = self.bases.get(class).into_iter().flatten();
        for base in bases.filter(|base| self.tables.contains_key(*base) && depth > 0) {
            result.extend(self.layout(base, depth - 1));
        }
        if result.is_empty() {
            result.push(BTreeSet::new());
        }
        if let Some((name, _)) = self.tables.get_key_value(class) {
            result[0].insert(name);
        }
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn function(signature: &str) -> Function {
        Function {
            signature: signature.to_owned(),
            blocks: vec![crate::ir::program::Block::default()],
            ..Function::default()
        }
    }

    fn classes() -> Classes {
        let mut classes = Classes::default();
        classes.add_table("4Base", vec![vec![Some(0), Some(1)]]);
        classes.add_table("4Left", vec![vec![Some(2), Some(1)]]);
        classes.add_table("5Other", vec![vec![Some(3), None]]);
        classes.add_bases("4Left", vec!["4Base".to_owned()]);
        classes
    }

    fn called(slot: u32, class: Option<&str>) -> Vec<FunctionId> {
        let functions = ["f", "f", "f", "f"].map(function);
        let call = VirtualCall {
            slot,
            class: class.map(str::to_owned),
        };
        let found = classes().candidates(&call, "f", &functions);
        found.into_iter().collect()
    }

    #[test]
    fn a_call_reaches_the_class_and_what_derives_from_it() {
        assert_eq!(called(0, Some("4Base")), [0, 2]);
        assert_eq!(called(0, Some("4Left")), [2]);
        assert_eq!(called(1, Some("4Left")), [1]);
    }

    #[test]
    fn without_a_known_class_every_table_counts() {
        assert_eq!(called(0, None), [0, 2, 3]);
        assert_eq!(called(0, Some("7Missing")), [0, 2, 3]);
        assert_eq!(called(7, None), [0u32; 0]);
    }

    #[test]
    fn the_second_base_has_a_table_of_its_own() {
        let mut classes = classes();
        classes.add_table("4Both", vec![vec![Some(4), None], vec![Some(5), None]]);
        let bases = ["4Base", "5Other"].map(str::to_owned);
        classes.add_bases("4Both", bases.to_vec());
        let functions = ["f"; 6].map(function);
        let called = |class: &str| {
            let call = VirtualCall {
                slot: 0,
                class: Some(class.to_owned()),
            };
            classes.candidates(&call, "f", &functions)
        };
        assert_eq!(called("5Other"), BTreeSet::from([3, 5]));
        assert_eq!(called("4Base"), BTreeSet::from([0, 2, 4]));
    }

    #[test]
    fn a_cycle_of_bases_ends() {
        let mut classes = classes();
        classes.add_bases("4Base", vec!["4Left".to_owned()]);
        assert!(classes.is_a("4Base", "4Left"));
        assert!(!classes.is_a("4Base", "5Other"));
        assert!(!classes.layout("4Base", MAX_NESTING).is_empty());
    }
}
