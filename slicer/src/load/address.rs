//! From typed pointer computations to fields of records.
//!
//! This is the last place where LLVM's types are at hand: what an address
//! enters (`queue.mut`), how many bytes an access touches, which record an
//! untyped copy must be about. Later stages know fields by number only.

use crate::ir::program::*;
use crate::load::ModuleScope;
use crate::load::llvm::{Opcode, Type, TypeKind, Value, ValueKind};

/// Anonymous records nest; bitcode from outside could do so without end.
const MAX_NESTING: u32 = 16;

/// The record that a pointer plainly points to, if it is `length` bytes long:
/// the only hint of a type that an untyped copy gives.
pub(crate) fn record_of_length<'m>(
    scope: &mut ModuleScope<'_, 'm>,
    pointer: Value<'m>,
    length: u64,
) -> Option<RecordId> {
    let ty = match pointer.kind() {
        ValueKind::LLVMGlobalVariableValueKind => pointer.value_type(),
        ValueKind::LLVMInstructionValueKind => match pointer.opcode() {
            Opcode::LLVMAlloca => pointer.allocated_type(),
            Opcode::LLVMGetElementPtr => {
                let operands = pointer.operands();
                landing_type(pointer.source_element_type(), &operands[1..])?
            }
            _ => return None,
        },
        _ => return None,
    };
    (scope.module.array_stride(ty) == length).then(|| scope.record(ty))?
}

fn landing_type<'m>(source: Type<'m>, indices: &[Value<'m>]) -> Option<Type<'m>> {
    indices.iter().skip(1).try_fold(source, |ty, index| {
        ty.element()
            .or_else(|| ty.field(index.constant_integer()? as u32))
    })
}

/// Size of an access and, if its address is a constant, the field it touches.
pub(crate) fn access<'m>(
    scope: &mut ModuleScope<'_, 'm>,
    ty: Type<'m>,
    pointer: Option<Value<'m>>,
) -> (u32, Option<FieldId>) {
    let size = scope.module.store_size(ty);
    let field = pointer.and_then(|pointer| constant_field(scope, pointer, size));
    (u32::try_from(size).unwrap_or(u32::MAX), field)
}

/// The field that a constant address lies in. clang folds `&g.first` to `@g`,
/// so the offset is resolved through the variable's own type.
fn constant_field<'m>(
    scope: &mut ModuleScope<'_, 'm>,
    pointer: Value<'m>,
    size: u64,
) -> Option<FieldId> {
    let (global, mut offset) = constant_offset(scope, pointer)?;
    let mut ty = global.value_type();
    let mut within: Option<Within> = None;
    loop {
        let extent = scope.module.array_stride(ty);
        if extent == 0 || offset >= extent {
            break;
        }
        if let Some(element) = ty.element() {
            let stride = scope.module.array_stride(element).max(1);
            offset %= stride;
            ty = element;
        } else if matches!(ty.kind(), TypeKind::LLVMStructTypeKind) && size < extent {
            let index = scope.module.field_at(ty, offset)?;
            let start = scope.module.field_offset(ty, index)?;
            match (scope.record(ty), &mut within) {
                (Some(record), _) => within = Some((record, extent, start)),
                (None, Some((_, _, outer))) => *outer += start,
                (None, None) => {}
            }
            offset -= start;
            ty = ty.field(index)?;
        } else {
            break;
        }
    }
    within.map(|(record, size, offset)| scope.field(record, size, offset))
}

/// A global variable and a constant number of bytes into it.
fn constant_offset<'m>(
    scope: &mut ModuleScope<'_, 'm>,
    pointer: Value<'m>,
) -> Option<(Value<'m>, u64)> {
    match pointer.kind() {
        ValueKind::LLVMGlobalVariableValueKind => Some((pointer, 0)),
        ValueKind::LLVMConstantExprValueKind
            if matches!(pointer.constant_opcode(), Opcode::LLVMGetElementPtr) =>
        {
            let operands = pointer.operands();
            let (global, mut offset) = constant_offset(scope, *operands.first()?)?;
            let mut ty = pointer.source_element_type();
            for (position, index) in operands.iter().skip(1).enumerate() {
                let index = index.constant_integer()?;
                let step = if position == 0 {
                    scope.module.array_stride(ty).wrapping_mul(index)
                } else if let Some(element) = ty.element() {
                    ty = element;
                    scope.module.array_stride(ty).wrapping_mul(index)
                } else {
                    let index = u32::try_from(index).ok()?;
                    let start = scope.module.field_offset(ty, index)?;
                    ty = ty.field(index)?;
                    start
                };
                offset = offset.wrapping_add(step);
            }
            Some((global, offset))
        }
        _ => None,
    }
}

/// A record's id, its size, and an offset in it.
type Within = (RecordId, u64, u64);

pub(crate) fn pointer_step<'m>(scope: &mut ModuleScope<'_, 'm>, pointer: Value<'m>) -> PointerStep {
    let operands = pointer.operands();
    let source = pointer.source_element_type();
    let (within, element) = enter(scope, pointer, MAX_NESTING);
    let landing = landing_type(source, operands.get(1..).unwrap_or_default());
    PointerStep {
        field: within.map(|(record, size, offset)| scope.field(record, size, offset)),
        element: element || (within.is_none() && source.field_count() > 0),
        lands_on: landing.and_then(|ty| scope.record(ty)),
    }
}

/// The innermost named record that a pointer computation enters, and whether
/// it also selects an array element. An anonymous record counts as a part of
/// the record that the base points into.
fn enter<'m>(
    scope: &mut ModuleScope<'_, 'm>,
    pointer: Value<'m>,
    depth: u32,
) -> (Option<Within>, bool) {
    let operands = pointer.operands();
    let [base, first, rest @ ..] = operands.as_slice() else {
        return (None, false);
    };
    let mut ty = pointer.source_element_type();
    let mut element = first.constant_integer() != Some(0);
    let mut within = None;
    let continues = ty.field_count() > 0 && scope.record(ty).is_none() && depth > 0;
    if continues
        && matches!(base.kind(), ValueKind::LLVMInstructionValueKind)
        && matches!(base.opcode(), Opcode::LLVMGetElementPtr)
    {
        let outer = enter(scope, *base, depth - 1);
        within = outer.0;
        element |= outer.1;
    }
    for index in rest {
        if let Some(inner) = ty.element() {
            element = true;
            ty = inner;
            continue;
        }
        let number = index.constant_integer().map(|i| i as u32);
        let target = number.and_then(|i| Some((scope.module.field_offset(ty, i)?, ty.field(i)?)));
        let Some((start, inner)) = target else {
            return (within, true);
        };
        match scope.record(ty) {
            Some(record) => within = Some((record, scope.module.array_stride(ty), start)),
            None => {
                if let Some((_, _, offset)) = &mut within {
                    *offset += start;
                }
            }
        }
        ty = inner;
    }
    (within, element)
}
