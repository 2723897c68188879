//! What a tracked call is given and returns.
//!
//! Arguments are recorded behind the event that the call was reached, the result
//! where the call has returned: integers, pointers and floating-point numbers
//! that fit into a register. Of pointers to `char`, by the debug info of the
//! function that is called, or because the C library takes a string there, the
//! runtime keeps the first bytes.
//!
//! Deliberately absent: calls that were inlined (there is no call, and its
//! arguments may be nowhere), arguments that are passed in memory, and pointers
//! to `char` in loads and stores: what they point to need not be a string.

use crate::branches::source_branches::SourceBranches;
use crate::hooks::emit::{Hooks, Runtime};
use crate::hooks::kept::can_tire;
use crate::hooks::{place_behind, result_of};
use crate::sites::locate::operands;
use inkwell::builder::BuilderError;
use inkwell::llvm_sys::core::{
    LLVMCountParams, LLVMGetCalledValue, LLVMGetGlobalParent, LLVMGetModuleContext,
    LLVMGetNumArgOperands, LLVMIsAFunction, LLVMValueAsMetadata,
};
use inkwell::llvm_sys::debuginfo::{
    LLVMDITypeGetName, LLVMGetDINodeTag, LLVMGetMetadataKind, LLVMGetSubprogram, LLVMMetadataKind,
};
use inkwell::llvm_sys::prelude::{LLVMContextRef, LLVMMetadataRef};
use inkwell::values::{AsValueRef, BasicValueEnum, FunctionValue, InstructionValue, Operand};
use sketch_model::SiteId;

/// Arguments beyond these are not recorded.
const MOST_ARGUMENTS: u32 = 4;
/// In the second argument of `__failsketch_value`.
const POINTER: u64 = 1 << 15;
const STRING: u64 = 1 << 31;

/// Strings that functions of the C library take, by the arguments' positions.
const LIBRARY: [(&str, &[u32]); 34] = [
    ("access", &[0]),
    ("atoi", &[0]),
    ("atol", &[0]),
    ("chdir", &[0]),
    ("fopen", &[0, 1]),
    ("fopen64", &[0, 1]),
    ("fputs", &[0]),
    ("getenv", &[0]),
    ("mkdir", &[0]),
    ("open", &[0]),
    ("open64", &[0]),
    ("opendir", &[0]),
    ("perror", &[0]),
    ("puts", &[0]),
    ("remove", &[0]),
    ("rename", &[0, 1]),
    ("setenv", &[0, 1]),
    ("stat", &[0]),
    ("strcasecmp", &[0, 1]),
    ("strcat", &[0, 1]),
    ("strchr", &[0]),
    ("strcmp", &[0, 1]),
    ("strcpy", &[1]),
    ("strcspn", &[0, 1]),
    ("strdup", &[0]),
    ("strlen", &[0]),
    ("strpbrk", &[0, 1]),
    ("strrchr", &[0]),
    ("strspn", &[0, 1]),
    ("strstr", &[0, 1]),
    ("strtod", &[0]),
    ("strtol", &[0]),
    ("strtoul", &[0]),
    ("unlink", &[0]),
];

impl<'ctx> Hooks<'ctx> {
    /// Records the arguments of a call before it, and its result behind it.
    pub fn call_values(
        &self,
        site: SiteId,
        call: InstructionValue<'ctx>,
        written: &SourceBranches,
    ) -> Result<(), BuilderError> {
        let strings = strings_of(call, written);
        // SAFETY: `call` is a live call or invoke.
        let count = unsafe { LLVMGetNumArgOperands(call.as_value_ref()) };
        self.stand_before(call);
        for number in 0..count.min(MOST_ARGUMENTS) {
            if let Some(Operand::Value(value)) = call.get_operand(number) {
                let is_string = strings.contains(&Some(number));
                self.call_value(site, number + 1, value, is_string)?;
            }
        }
        if let (Some(next), Some(result)) = (place_behind(call), result_of(call)) {
            self.stand_between(call, next);
            self.call_value(site, 0, result, strings.contains(&None))?;
        }
        Ok(())
    }

    fn call_value(
        &self,
        site: SiteId,
        number: u32,
        value: BasicValueEnum<'ctx>,
        is_string: bool,
    ) -> Result<(), BuilderError> {
        let (size, flags) = match value {
            BasicValueEnum::IntValue(integer) => (integer.get_type().get_bit_width() / 8, 0),
            BasicValueEnum::PointerValue(_) if is_string => (8, POINTER | STRING),
            BasicValueEnum::PointerValue(_) => (8, POINTER),
            BasicValueEnum::FloatValue(float) => (float.get_type().get_bit_width() / 8, 0),
            _ => return Ok(()),
        };
        if !matches!(size, 1 | 2 | 4 | 8) {
            return Ok(());
        }
        let bits = self.widened(value, size)?;
        let what = flags | u64::from(size) | u64::from(number) << 16;
        if can_tire(site) {
            return self.kept_value(site, what, bits);
        }
        self.call(Runtime::Value, &[self.site(site), self.narrow(what), bits])
    }
}

/// Which arguments of a call, and its result (`None`), are strings.
fn strings_of(call: InstructionValue<'_>, written: &SourceBranches) -> Vec<Option<u32>> {
    // SAFETY: `call` is a live call or invoke; what it calls is a function or not.
    let (callee, arguments) = unsafe {
        let callee = LLVMIsAFunction(LLVMGetCalledValue(call.as_value_ref()));
        let arguments = LLVMGetNumArgOperands(call.as_value_ref());
        (FunctionValue::new(callee), arguments)
    };
    let Some(callee) = callee else {
        return Vec::new();
    };
    let name = callee.get_name().to_string_lossy().into_owned();
    let known = LIBRARY.iter().find(|(function, _)| *function == name);
    if let Some((_, arguments)) = known {
        return arguments.iter().copied().map(Some).collect();
    }
    // Arguments that were optimised away shift the others.
    let declared = written.strings_of(&name);
    let declared = declared.filter(|declared| declared.parameters == arguments);
    declared.map_or_else(Vec::new, |declared| declared.strings.clone())
}

/// What debug info says of the strings that a function takes and returns.
#[derive(Debug)]
pub struct DeclaredStrings {
    pub parameters: u32,
    /// By position; `None` for the result.
    pub strings: Vec<Option<u32>>,
}

/// `DISubprogram` holds its type behind its names, `DISubroutineType` the types
/// of result and arguments, and a derived type what it is derived from.
const TYPE_OF_FUNCTION: usize = 4;
const TYPES: usize = 3;
const BASE_TYPE: usize = 3;
const TAG_POINTER: u16 = 0x0f;
const TAG_CONST: u16 = 0x26;

/// The strings of a function; `None` if there are none.
pub fn declared_strings(function: FunctionValue<'_>) -> Option<DeclaredStrings> {
    let function = function.as_value_ref();
    // SAFETY: the function is alive; one without debug info answers null.
    let (context, subprogram, parameters) = unsafe {
        (
            LLVMGetModuleContext(LLVMGetGlobalParent(function)),
            LLVMGetSubprogram(function),
            LLVMCountParams(function),
        )
    };
    let types = operand(context, subprogram, TYPE_OF_FUNCTION)
        .and_then(|ty| operand(context, ty, TYPES))
        .map(|types| all_operands(context, types))
        .unwrap_or_default();
    if types.len() != parameters as usize + 1 {
        return None;
    }
    let strings = types.iter().enumerate().filter(|(_, ty)| {
        let pointee = ty
            .filter(|ty| tag(*ty) == TAG_POINTER)
            .and_then(|ty| operand(context, ty, BASE_TYPE));
        let plain = match pointee {
            Some(ty) if tag(ty) == TAG_CONST => operand(context, ty, BASE_TYPE),
            other => other,
        };
        plain.is_some_and(is_char)
    });
    let strings: Vec<Option<u32>> = strings
        .map(|(number, _)| u32::try_from(number).ok()?.checked_sub(1))
        .collect();
    (!strings.is_empty()).then_some(DeclaredStrings {
        parameters,
        strings,
    })
}

fn operand(context: LLVMContextRef, node: LLVMMetadataRef, at: usize) -> Option<LLVMMetadataRef> {
    if node.is_null() {
        return None;
    }
    all_operands(context, node).get(at).copied().flatten()
}

fn all_operands(context: LLVMContextRef, node: LLVMMetadataRef) -> Vec<Option<LLVMMetadataRef>> {
    let found = operands(context, node).into_iter();
    // SAFETY: the operand of a metadata node is metadata as a value, or null.
    found
        .map(|value| (!value.is_null()).then(|| unsafe { LLVMValueAsMetadata(value) }))
        .collect()
}

fn tag(node: LLVMMetadataRef) -> u16 {
    // SAFETY: the node is alive, and only those that have a tag are asked.
    unsafe {
        match LLVMGetMetadataKind(node) {
            LLVMMetadataKind::LLVMDIDerivedTypeMetadataKind => LLVMGetDINodeTag(node),
            _ => 0,
        }
    }
}

fn is_char(node: LLVMMetadataRef) -> bool {
    // SAFETY: the node is alive; only a basic type is asked for its name, which
    // lives as long as the context.
    unsafe {
        let kind = LLVMGetMetadataKind(node);
        if !matches!(kind, LLVMMetadataKind::LLVMDIBasicTypeMetadataKind) {
            return false;
        }
        let mut length = 0;
        let name = LLVMDITypeGetName(node, &mut length);
        !name.is_null() && std::slice::from_raw_parts(name.cast::<u8>(), length) == b"char"
    }
}
