//! Initial values of globals: which functions lie in them, and C++'s tables.
//!
//! A table of functions (`struct operations used = { run_it }`) holds what a
//! call through it may call. Virtual tables and type information are such
//! values with a fixed shape (Itanium C++ ABI, 2.5.2 and 2.9.5): a table's slots
//! start behind the entry for its type information; a class's type information
//! names those of its bases.

use crate::ir::classes::Slots;
use crate::ir::program::FunctionId;
use crate::load::ModuleScope;
use crate::load::llvm::{Value, ValueKind};

impl<'m> ModuleScope<'_, 'm> {
    /// Keeps what the initial value of a global says about calls.
    pub fn note_initial(&mut self, global: Value<'m>, value: Value<'m>) {
        let name = global.name();
        if let Some(class) = name.strip_prefix("_ZTV") {
            let groups = value.operands();
            let groups = groups.into_iter().map(|group| self.slots(group)).collect();
            self.tables.classes.add_table(class, groups);
        }
        if let Some(class) = name.strip_prefix("_ZTI") {
            let bases = value.operands().into_iter().filter_map(|part| {
                let is_global = matches!(part.kind(), ValueKind::LLVMGlobalVariableValueKind);
                let name = is_global.then(|| part.name())?;
                name.strip_prefix("_ZTI").map(str::to_owned)
            });
            self.tables.classes.add_bases(class, bases.collect());
        }
        let mut held: Vec<FunctionId> = Vec::new();
        let mut work = vec![value];
        while let Some(part) = work.pop() {
            match part.kind() {
                ValueKind::LLVMFunctionValueKind => held.push(self.function(part)),
                ValueKind::LLVMConstantStructValueKind
                | ValueKind::LLVMConstantArrayValueKind
                | ValueKind::LLVMConstantExprValueKind => work.extend(part.operands()),
                ValueKind::LLVMGlobalAliasValueKind => work.extend(part.aliasee()),
                _ => {}
            }
        }
        if !held.is_empty() {
            held.sort_unstable();
            held.dedup();
            let id = self.global(global);
            self.tables.held.insert(id, held);
        }
    }

    fn slots(&mut self, group: Value<'m>) -> Slots {
        if !matches!(group.kind(), ValueKind::LLVMConstantArrayValueKind) {
            return Slots::new();
        }
        let entries = group.operands();
        let is_type = |value: &Value<'m>| {
            matches!(value.kind(), ValueKind::LLVMGlobalVariableValueKind)
                && value.name().starts_with("_ZTI")
        };
        let is_function =
            |value: &Value<'m>| matches!(value.kind(), ValueKind::LLVMFunctionValueKind);
        let behind_type = entries.iter().position(is_type).map(|at| at + 1);
        let start = behind_type.or_else(|| entries.iter().position(is_function));
        let slots = entries.into_iter().skip(start.unwrap_or(usize::MAX));
        slots
            .map(|entry| {
                let target = entry.aliasee().unwrap_or(entry);
                is_function(&target).then(|| self.function(target))
            })
            .collect()
    }
}
