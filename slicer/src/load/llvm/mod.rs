//! The few questions we ask LLVM, as safe methods on borrowed handles.
//!
//! inkwell's own wrappers panic on values of unusual types (tokens, metadata),
//! and a slicer meets all of them; the C API answers the same questions without
//! opinions. Every handle borrows the [`Module`] it came from, so none outlives
//! the memory behind it; a `Module` owns its context, so struct names are not
//! renumbered by other modules.
//!
//! Deliberately absent: changing IR, except for turning debug records back into
//! calls, which is how the C API of LLVM 19 can see variables at all.

use inkwell::llvm_sys::LLVMDiagnosticSeverity;
use inkwell::llvm_sys::bit_reader::LLVMParseBitcodeInContext2;
use inkwell::llvm_sys::core::*;
use inkwell::llvm_sys::prelude::*;
use inkwell::llvm_sys::target::*;
use std::ffi::{CStr, c_char, c_void};

mod metadata;
mod values;

pub(crate) use inkwell::llvm_sys::debuginfo::LLVMMetadataKind as MetadataKind;
pub(crate) use inkwell::llvm_sys::{
    LLVMLinkage as Linkage, LLVMOpcode as Opcode, LLVMTypeKind as TypeKind,
    LLVMValueKind as ValueKind,
};
pub(crate) use metadata::Metadata;
pub(crate) use values::{BasicBlock, Type, Value};

/// What LLVM complained about. Boxed where it is used: LLVM keeps its address.
#[derive(Default)]
struct Messages(Vec<String>);

/// A parsed module with its own context.
pub(crate) struct Module {
    context: LLVMContextRef,
    module: LLVMModuleRef,
    layout: LLVMTargetDataRef,
    /// The diagnostic handler writes here for as long as the context lives.
    _messages: Box<Messages>,
}

extern "C" fn record(info: LLVMDiagnosticInfoRef, messages: *mut c_void) {
    // SAFETY: LLVM passes a live diagnostic and the pointer registered in
    // `Module::parse`, which points to a boxed vector that outlives the context
    // and that nothing else borrows while LLVM runs.
    unsafe {
        if matches!(
            LLVMGetDiagInfoSeverity(info),
            LLVMDiagnosticSeverity::LLVMDSError
        ) {
            let text = LLVMGetDiagInfoDescription(info);
            (*messages.cast::<Messages>())
                .0
                .push(CStr::from_ptr(text).to_string_lossy().into_owned());
            LLVMDisposeMessage(text);
        }
    }
}

impl Module {
    /// Parses bitcode; the error is LLVM's own text.
    pub fn parse(bitcode: &[u8]) -> Result<Module, String> {
        let mut messages: Box<Messages> = Box::default();
        let handle: *mut Messages = &mut *messages;
        // SAFETY: the buffer refers to `bitcode`, which outlives the eager parse
        // below; LLVM copies what it keeps. The handler and its vector stay
        // valid until the context is disposed of, here or in `drop`.
        unsafe {
            let context = LLVMContextCreate();
            LLVMContextSetDiagnosticHandler(context, Some(record), handle.cast());
            let buffer = LLVMCreateMemoryBufferWithMemoryRange(
                bitcode.as_ptr().cast(),
                bitcode.len(),
                c"module".as_ptr(),
                0,
            );
            let mut module = std::ptr::null_mut();
            let failed = LLVMParseBitcodeInContext2(context, buffer, &mut module) != 0;
            LLVMDisposeMemoryBuffer(buffer);
            if failed || module.is_null() {
                LLVMContextDispose(context);
                return Err(if messages.0.is_empty() {
                    "LLVM gave no reason".to_owned()
                } else {
                    messages.0.join("; ")
                });
            }
            LLVMSetIsNewDbgInfoFormat(module, 0);
            Ok(Module {
                context,
                module,
                layout: LLVMGetModuleDataLayout(module),
                _messages: messages,
            })
        }
    }

    pub fn functions(&self) -> impl Iterator<Item = Value<'_>> {
        // SAFETY: the module is alive, and so is each value that it hands out.
        let first = unsafe { LLVMGetFirstFunction(self.module) };
        // SAFETY: as above.
        chain(first, |v| unsafe { LLVMGetNextFunction(v) })
    }

    pub fn globals(&self) -> impl Iterator<Item = Value<'_>> {
        // SAFETY: as in `functions`.
        let first = unsafe { LLVMGetFirstGlobal(self.module) };
        // SAFETY: as in `functions`.
        chain(first, |v| unsafe { LLVMGetNextGlobal(v) })
    }

    /// The module's compile units: none without debug info.
    pub fn compile_units(&self) -> Vec<Metadata<'_>> {
        let name = c"llvm.dbg.cu".as_ptr();
        // SAFETY: the module is alive and the vector has as many places as LLVM
        // says there are operands; operands of a named node are nodes.
        unsafe {
            let count = LLVMGetNamedMetadataNumOperands(self.module, name);
            let mut nodes = vec![std::ptr::null_mut(); count as usize];
            LLVMGetNamedMetadataOperands(self.module, name, nodes.as_mut_ptr());
            let nodes = nodes.into_iter().filter(|n| !n.is_null());
            nodes
                .filter_map(|n| Metadata::new(LLVMValueAsMetadata(n)))
                .collect()
        }
    }

    /// Bytes that a load or store of the type touches.
    pub fn store_size(&self, ty: Type<'_>) -> u64 {
        // SAFETY: layout and type belong to this live module; unsized types are not asked.
        unsafe {
            if LLVMTypeIsSized(ty.0) == 0 {
                return 0;
            }
            LLVMStoreSizeOfType(self.layout, ty.0)
        }
    }

    /// Distance between elements of the type in an array.
    pub fn array_stride(&self, ty: Type<'_>) -> u64 {
        // SAFETY: as in `store_size`.
        unsafe {
            if LLVMTypeIsSized(ty.0) == 0 {
                return 0;
            }
            LLVMABISizeOfType(self.layout, ty.0)
        }
    }

    pub fn field_offset(&self, record: Type<'_>, index: u32) -> Option<u64> {
        // SAFETY: the type is a sized struct and the index within it, as checked.
        unsafe {
            if LLVMTypeIsSized(record.0) == 0 || index >= record.field_count() {
                return None;
            }
            Some(LLVMOffsetOfElement(self.layout, record.0, index))
        }
    }

    /// The struct element that holds a byte offset.
    pub fn field_at(&self, record: Type<'_>, offset: u64) -> Option<u32> {
        if offset >= self.array_stride(record) || record.field_count() == 0 {
            return None;
        }
        // SAFETY: the struct is sized (its stride is not 0) and the offset lies within it.
        Some(unsafe { LLVMElementAtOffset(self.layout, record.0, offset) })
    }

    /// Operands of a metadata node; `None` where one is absent or not metadata.
    pub fn node_operands<'m>(&'m self, node: Metadata<'m>) -> Vec<Option<Metadata<'m>>> {
        if !node.is_node() {
            return Vec::new();
        }
        // SAFETY: `node` is an MDNode of this context; the vector has as many
        // places as LLVM says there are operands.
        unsafe {
            let value = LLVMMetadataAsValue(self.context, node.0);
            let count = LLVMGetMDNodeNumOperands(value);
            let mut operands = vec![std::ptr::null_mut(); count as usize];
            LLVMGetMDNodeOperands(value, operands.as_mut_ptr());
            let is_metadata = |v: &LLVMValueRef| {
                !v.is_null()
                    && matches!(
                        LLVMGetValueKind(*v),
                        ValueKind::LLVMMetadataAsValueValueKind
                    )
            };
            let operands = operands.into_iter().map(|v| Some(v).filter(is_metadata));
            operands
                .map(|v| v.and_then(|v| Metadata::new(LLVMValueAsMetadata(v))))
                .collect()
        }
    }
}

impl Drop for Module {
    fn drop(&mut self) {
        // SAFETY: both were created in `parse` and are disposed of once; no
        // handle outlives `self`.
        unsafe {
            LLVMDisposeModule(self.module);
            LLVMContextDispose(self.context);
            // A module is hundreds of thousands of small pieces. The allocator
            // would keep their pages, and the graph, which is few large pieces,
            // would come on top of them.
            libc::malloc_trim(0);
        }
    }
}

fn chain<'m>(
    first: LLVMValueRef,
    next: impl Fn(LLVMValueRef) -> LLVMValueRef,
) -> impl Iterator<Item = Value<'m>> {
    let mut current = first;
    std::iter::from_fn(move || {
        let this = Value::new(current)?;
        current = next(current);
        Some(this)
    })
}

/// SAFETY of the callers: `data` points to `length` bytes that LLVM owns.
unsafe fn text(data: *const c_char, length: usize) -> String {
    if data.is_null() {
        return String::new();
    }
    // SAFETY: promised by the caller.
    let bytes = unsafe { std::slice::from_raw_parts(data.cast::<u8>(), length) };
    String::from_utf8_lossy(bytes).into_owned()
}
