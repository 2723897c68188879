//! Which stores of a function, as written, go to one place.
//!
//! Where the optimiser has merged accesses (`merged.rs`), a location tells which
//! statement is meant only if no other statement of the function stores there. The
//! module before optimisation knows: there each store has its own address, and
//! addresses say of themselves what they are, a member of a record or a global.
//!
//! A store through a pointer of which that is not known may go anywhere.

use crate::branches::source_branches::{Spot, spot_of};
use crate::sites::locate::{Locator, subprogram_of};
use inkwell::llvm_sys::LLVMOpcode;
use inkwell::llvm_sys::core::{
    LLVMConstIntGetZExtValue, LLVMGetGEPSourceElementType, LLVMGetInstructionOpcode,
    LLVMGetNumOperands, LLVMGetOperand, LLVMGetValueName2, LLVMIsAConstantInt,
    LLVMIsAGlobalVariable, LLVMIsAInstruction,
};
use inkwell::llvm_sys::prelude::{LLVMTypeRef, LLVMValueRef};
use inkwell::module::Module;
use inkwell::values::{AsValueRef, InstructionOpcode};
use std::collections::{HashMap, HashSet};

/// What an address is.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Target {
    /// Of a type of the module, with the numbers of its members; arrays have none.
    Member(LLVMTypeRef, Vec<Option<u64>>),
    Global(Vec<u8>),
    Local,
    Unknown,
}

/// The stores of a plan's functions.
#[derive(Debug, Default)]
pub struct SourceStores {
    by_function: HashMap<String, Vec<(Spot, Target)>>,
}

impl SourceStores {
    /// Reads the stores of these functions out of a module before optimisation.
    pub fn read(locator: &mut Locator, module: &Module<'_>, functions: &HashSet<&str>) -> Self {
        let mut stores = SourceStores::default();
        for function in module.get_functions() {
            let name = subprogram_of(function).filter(|name| functions.contains(&**name));
            let Some(name) = name else {
                continue;
            };
            let found = stores.by_function.entry(name).or_default();
            for block in function.get_basic_block_iter() {
                for instruction in block.get_instructions() {
                    if instruction.get_opcode() != InstructionOpcode::Store {
                        continue;
                    }
                    // SAFETY: a store's second operand is its address.
                    let target = unsafe { target(LLVMGetOperand(instruction.as_value_ref(), 1)) };
                    let spot = spot_of(locator, instruction).unwrap_or_default();
                    found.push((spot, target));
                }
            }
        }
        stores
    }

    /// Whether what is stored at `spot` is stored nowhere else in the function.
    pub fn is_sole(&self, function: &str, spot: Spot) -> bool {
        let stores = self
            .by_function
            .get(function)
            .map_or(&[][..], Vec::as_slice);
        let mut at = stores.iter().filter(|(s, _)| *s == spot);
        let (Some((_, here)), None) = (at.next(), at.next()) else {
            return false;
        };
        let elsewhere = stores.iter().filter(|(s, _)| *s != spot);
        *here != Target::Unknown
            && *here != Target::Local
            && elsewhere
                .map(|(_, target)| target)
                .all(|target| target != here && *target != Target::Unknown)
    }
}

/// # Safety
/// `address` must be a value of a live module.
unsafe fn target(address: LLVMValueRef) -> Target {
    // SAFETY: as the caller promises; operands of live values are live.
    unsafe {
        if !LLVMIsAGlobalVariable(address).is_null() {
            let mut length = 0;
            let name = LLVMGetValueName2(address, &mut length);
            return Target::Global(std::slice::from_raw_parts(name.cast::<u8>(), length).to_vec());
        }
        if LLVMIsAInstruction(address).is_null() {
            return Target::Unknown;
        }
        match LLVMGetInstructionOpcode(address) {
            LLVMOpcode::LLVMAlloca => Target::Local,
            LLVMOpcode::LLVMGetElementPtr => {
                let operands = 2..LLVMGetNumOperands(address) as u32;
                let members = operands.map(|number| {
                    let index = LLVMGetOperand(address, number);
                    let constant = !LLVMIsAConstantInt(index).is_null();
                    constant.then(|| LLVMConstIntGetZExtValue(index))
                });
                let members: Vec<Option<u64>> = members.collect();
                if members.is_empty() {
                    return Target::Unknown;
                }
                Target::Member(LLVMGetGEPSourceElementType(address), members)
            }
            _ => Target::Unknown,
        }
    }
}
