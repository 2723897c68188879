//! Virtual calls, as clang spells them.
//!
//! `load (gep ptr, (load object), slot)` is called, and the object is one of
//! the first two arguments (the second if the result is returned through the
//! first). The object's static type is not in the IR: it is that of the variable
//! that the object pointer was loaded from, by debug info. A field or a result
//! has no variable; such a call has no class.

use crate::ir::classes::VirtualCall;
use crate::load::debug_info::DebugInfo;
use crate::load::llvm::{Metadata, Opcode, Value, ValueKind};
use rustc_hash::FxHashMap as HashMap;

/// The variables of the source that slots hold, by slot.
pub(crate) type Variables<'m> = HashMap<Value<'m>, Option<Metadata<'m>>>;

pub(crate) fn virtual_call<'m>(
    debug: &DebugInfo<'m>,
    variables: &Variables<'m>,
    call: Value<'m>,
) -> Option<VirtualCall> {
    let address = loaded_from(call.called_value()?)?;
    let (table, slot) = match instruction(address, Opcode::LLVMGetElementPtr) {
        Some(step) => {
            let operands = step.operands();
            let [base, index] = operands.as_slice() else {
                return None;
            };
            (*base, index.constant_integer()?)
        }
        None => (address, 0),
    };
    let object = loaded_from(table)?;
    let arguments = call.operands();
    let is_passed = arguments.iter().take(2).any(|a| *a == object);
    if !is_passed || call.argument_count() == 0 {
        return None;
    }
    let class = match loaded_from(object) {
        Some(slot) => variables
            .get(&slot)
            .and_then(|variable| debug.class_behind((*variable)?)),
        None => None,
    };
    Some(VirtualCall {
        slot: u32::try_from(slot).ok()?,
        class,
    })
}

fn instruction<'m>(value: Value<'m>, opcode: Opcode) -> Option<Value<'m>> {
    let fits = matches!(value.kind(), ValueKind::LLVMInstructionValueKind)
        && std::mem::discriminant(&value.opcode()) == std::mem::discriminant(&opcode);
    fits.then_some(value)
}

fn loaded_from<'m>(value: Value<'m>) -> Option<Value<'m>> {
    let load = instruction(value, Opcode::LLVMLoad)?;
    load.operands().first().copied()
}
