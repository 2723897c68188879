//! Values, blocks and types of a live [`Module`].

use super::{Linkage, Metadata, Module, Opcode, TypeKind, ValueKind, chain, text};
use inkwell::llvm_sys::core::*;
use inkwell::llvm_sys::debuginfo::*;
use inkwell::llvm_sys::prelude::*;
use std::ffi::CStr;
use std::marker::PhantomData;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Value<'m>(pub(super) LLVMValueRef, PhantomData<&'m Module>);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct BasicBlock<'m>(LLVMBasicBlockRef, PhantomData<&'m Module>);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Type<'m>(pub(super) LLVMTypeRef, PhantomData<&'m Module>);

impl<'m> Value<'m> {
    pub(super) fn new(raw: LLVMValueRef) -> Option<Value<'m>> {
        (!raw.is_null()).then_some(Value(raw, PhantomData))
    }

    pub fn kind(self) -> ValueKind {
        // SAFETY: a live value (see `Value::new` and the lifetime).
        unsafe { LLVMGetValueKind(self.0) }
    }

    pub fn name(self) -> String {
        let mut length = 0;
        // SAFETY: a live value; LLVM owns the name and gives its length.
        unsafe {
            let data = LLVMGetValueName2(self.0, &mut length);
            text(data, length)
        }
    }

    pub fn has_name(self, wanted: &str) -> bool {
        let mut length = 0;
        // SAFETY: as in `name`; the bytes are only looked at here.
        let name = unsafe {
            let data = LLVMGetValueName2(self.0, &mut length);
            if data.is_null() {
                return wanted.is_empty();
            }
            std::slice::from_raw_parts(data.cast::<u8>(), length)
        };
        name == wanted.as_bytes()
    }

    pub fn ty(self) -> Type<'m> {
        // SAFETY: a live value.
        Type(unsafe { LLVMTypeOf(self.0) }, PhantomData)
    }

    /// For functions and global variables.
    pub fn value_type(self) -> Type<'m> {
        // SAFETY: callers ask this of global values only.
        Type(unsafe { LLVMGlobalGetValueType(self.0) }, PhantomData)
    }

    pub fn linkage(self) -> Linkage {
        // SAFETY: callers ask this of global values only.
        unsafe { LLVMGetLinkage(self.0) }
    }

    pub fn is_declaration(self) -> bool {
        // SAFETY: callers ask this of global values only.
        unsafe { LLVMIsDeclaration(self.0) != 0 }
    }

    pub fn initializer(self) -> Option<Value<'m>> {
        // SAFETY: callers ask this of global variables only.
        Value::new(unsafe { LLVMGetInitializer(self.0) })
    }

    pub fn aliasee(self) -> Option<Value<'m>> {
        matches!(self.kind(), ValueKind::LLVMGlobalAliasValueKind)
            // SAFETY: the value is an alias.
            .then(|| Value::new(unsafe { LLVMAliasGetAliasee(self.0) }))?
    }

    pub fn subprogram(self) -> Option<Metadata<'m>> {
        // SAFETY: callers ask this of functions only.
        Metadata::new(unsafe { LLVMGetSubprogram(self.0) })
    }

    pub fn parameters(self) -> Vec<Value<'m>> {
        // SAFETY: callers ask this of functions only; indices are in range.
        let count = unsafe { LLVMCountParams(self.0) };
        (0..count)
            // SAFETY: as above.
            .filter_map(|i| Value::new(unsafe { LLVMGetParam(self.0, i) }))
            .collect()
    }

    pub fn blocks(self) -> Vec<BasicBlock<'m>> {
        let mut result = Vec::new();
        // SAFETY: callers ask this of functions only; LLVM ends the list with null.
        unsafe {
            let mut block = LLVMGetFirstBasicBlock(self.0);
            while !block.is_null() {
                result.push(BasicBlock(block, PhantomData));
                block = LLVMGetNextBasicBlock(block);
            }
        }
        result
    }

    pub fn opcode(self) -> Opcode {
        // SAFETY: callers ask this of instructions only.
        unsafe { LLVMGetInstructionOpcode(self.0) }
    }

    pub fn constant_opcode(self) -> Opcode {
        // SAFETY: callers ask this of constant expressions only.
        unsafe { LLVMGetConstOpcode(self.0) }
    }

    /// Operands of an instruction, constant expression or constant aggregate.
    pub fn operands(self) -> Vec<Value<'m>> {
        // SAFETY: a user value; the count is LLVM's own.
        let count = unsafe { LLVMGetNumOperands(self.0) }.max(0) as u32;
        (0..count)
            // SAFETY: the index is in range.
            .filter_map(|i| Value::new(unsafe { LLVMGetOperand(self.0, i) }))
            .collect()
    }

    /// For call instructions: the number of arguments.
    pub fn argument_count(self) -> usize {
        // SAFETY: callers ask this of calls, invokes and callbrs only.
        unsafe { LLVMGetNumArgOperands(self.0) as usize }
    }

    pub fn called_value(self) -> Option<Value<'m>> {
        // SAFETY: callers ask this of calls, invokes and callbrs only.
        Value::new(unsafe { LLVMGetCalledValue(self.0) })
    }

    pub fn called_type(self) -> Type<'m> {
        // SAFETY: callers ask this of calls, invokes and callbrs only.
        Type(unsafe { LLVMGetCalledFunctionType(self.0) }, PhantomData)
    }

    pub fn allocated_type(self) -> Type<'m> {
        // SAFETY: callers ask this of allocas only.
        Type(unsafe { LLVMGetAllocatedType(self.0) }, PhantomData)
    }

    /// For pointer computations, as instructions or constants.
    pub fn source_element_type(self) -> Type<'m> {
        // SAFETY: callers ask this of getelementptr only.
        Type(unsafe { LLVMGetGEPSourceElementType(self.0) }, PhantomData)
    }

    pub fn constant_integer(self) -> Option<u64> {
        matches!(self.kind(), ValueKind::LLVMConstantIntValueKind)
            // SAFETY: the value is a constant integer; LLVM asserts at most 64
            // active bits, which index and length operands satisfy (i32, i64).
            .then(|| unsafe { LLVMConstIntGetZExtValue(self.0) })
    }

    pub fn debug_location(self) -> Option<Metadata<'m>> {
        // SAFETY: callers ask this of instructions only.
        Metadata::new(unsafe { LLVMInstructionGetDebugLoc(self.0) })
    }

    /// The value that a metadata operand of an intrinsic call wraps.
    pub fn wrapped_value(self) -> Option<Value<'m>> {
        if !matches!(self.kind(), ValueKind::LLVMMetadataAsValueValueKind) {
            return None;
        }
        // SAFETY: the value wraps metadata; if that is a wrapped value, LLVM
        // reports one operand and writes it to the one place given.
        unsafe {
            if LLVMIsAValueAsMetadata(self.0).is_null() || LLVMGetMDNodeNumOperands(self.0) != 1 {
                return None;
            }
            let mut inner = std::ptr::null_mut();
            LLVMGetMDNodeOperands(self.0, &mut inner);
            Value::new(inner)
        }
    }

    pub fn as_metadata(self) -> Option<Metadata<'m>> {
        matches!(self.kind(), ValueKind::LLVMMetadataAsValueValueKind)
            // SAFETY: the value wraps metadata.
            .then(|| Metadata::new(unsafe { LLVMValueAsMetadata(self.0) }))?
    }

    /// Start and end in the source of the loop that a branch closes, as lines
    /// and columns.
    pub fn loop_range(self, module: &'m Module) -> Option<((u32, u32), (u32, u32))> {
        let name = "llvm.loop";
        // SAFETY: a live instruction of this module's context; the name's
        // length is given.
        let node = unsafe {
            let kind =
                LLVMGetMDKindIDInContext(module.context, name.as_ptr().cast(), name.len() as u32);
            Value::new(LLVMGetMetadata(self.0, kind))?
        };
        let operands = module.node_operands(node.as_metadata()?);
        let mut locations = operands
            .into_iter()
            .flatten()
            .filter_map(Metadata::location);
        let (start, end) = (locations.next()?, locations.next()?);
        Some(((start.0, start.1), (end.0, end.1)))
    }

    pub fn successors(self) -> Vec<BasicBlock<'m>> {
        // SAFETY: callers ask this of terminators only; indices are in range.
        let count = unsafe { LLVMGetNumSuccessors(self.0) };
        (0..count)
            // SAFETY: as above.
            .map(|i| BasicBlock(unsafe { LLVMGetSuccessor(self.0, i) }, PhantomData))
            .collect()
    }

    pub fn unwind_destination(self) -> BasicBlock<'m> {
        // SAFETY: callers ask this of invokes only.
        BasicBlock(unsafe { LLVMGetUnwindDest(self.0) }, PhantomData)
    }
}

impl<'m> BasicBlock<'m> {
    pub fn instructions(self) -> impl Iterator<Item = Value<'m>> {
        // SAFETY: a live block, and live instructions of it.
        let first = unsafe { LLVMGetFirstInstruction(self.0) };
        // SAFETY: as above.
        chain(first, |v| unsafe { LLVMGetNextInstruction(v) })
    }
}

impl<'m> Type<'m> {
    pub fn kind(self) -> TypeKind {
        // SAFETY: a live type.
        unsafe { LLVMGetTypeKind(self.0) }
    }

    pub fn struct_name(self) -> Option<String> {
        if !matches!(self.kind(), TypeKind::LLVMStructTypeKind) {
            return None;
        }
        // SAFETY: a live struct type; the name is null or zero-terminated.
        unsafe {
            let name = LLVMGetStructName(self.0);
            (!name.is_null()).then(|| CStr::from_ptr(name).to_string_lossy().into_owned())
        }
    }

    /// 0 for anything but a struct.
    pub fn field_count(self) -> u32 {
        match self.kind() {
            // SAFETY: a live struct type.
            TypeKind::LLVMStructTypeKind => unsafe { LLVMCountStructElementTypes(self.0) },
            _ => 0,
        }
    }

    pub fn field(self, index: u32) -> Option<Type<'m>> {
        if index >= self.field_count() {
            return None;
        }
        // SAFETY: a struct, and the index is within it.
        let raw = unsafe { LLVMStructGetTypeAtIndex(self.0, index) };
        Some(Type(raw, PhantomData))
    }

    /// The element type of an array or vector.
    pub fn element(self) -> Option<Type<'m>> {
        matches!(
            self.kind(),
            TypeKind::LLVMArrayTypeKind
                | TypeKind::LLVMVectorTypeKind
                | TypeKind::LLVMScalableVectorTypeKind
        )
        // SAFETY: a live array or vector type.
        .then(|| Type(unsafe { LLVMGetElementType(self.0) }, PhantomData))
    }

    pub fn text(self) -> String {
        // SAFETY: a live type; the message is ours to dispose of.
        unsafe {
            let raw = LLVMPrintTypeToString(self.0);
            let result = CStr::from_ptr(raw).to_string_lossy().into_owned();
            LLVMDisposeMessage(raw);
            result
        }
    }
}
