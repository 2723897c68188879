//! Where an optimised instruction comes from: its chain of inlined source positions.
//!
//! Debug locations are the ids that survive optimisation: the optimiser keeps
//! them (merging to line 0 where two differ, which matches nothing here), and
//! inlining wraps them instead of replacing them. LLVM's C API reads lines and
//! files but cannot climb from a lexical block to its function; the operands of
//! the metadata nodes can, in the order that LLVM 19's `DebugInfoMetadata.h`
//! gives them.
//!
//! A debug location is shared by many instructions and a scope by many
//! locations, so both answers are kept: reading a module's positions then costs
//! one look into a table per instruction.

use inkwell::llvm_sys::core::{
    LLVMGetGlobalParent, LLVMGetMDNodeNumOperands, LLVMGetMDNodeOperands, LLVMGetMDString,
    LLVMGetModuleContext, LLVMMetadataAsValue, LLVMValueAsMetadata,
};
use inkwell::llvm_sys::debuginfo::{
    LLVMDIFileGetDirectory, LLVMDIFileGetFilename, LLVMDILocationGetColumn,
    LLVMDILocationGetInlinedAt, LLVMDILocationGetLine, LLVMDILocationGetScope, LLVMDIScopeGetFile,
    LLVMGetMetadataKind, LLVMGetSubprogram, LLVMInstructionGetDebugLoc, LLVMMetadataKind,
};
use inkwell::llvm_sys::prelude::{LLVMContextRef, LLVMMetadataRef, LLVMValueRef};
use inkwell::values::{AsValueRef, FunctionValue};
use std::collections::HashMap;
use std::rc::Rc;

/// One source position of an instruction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Position {
    /// The linkage name of the function the source line belongs to.
    pub function: Rc<str>,
    pub file: Rc<str>,
    pub line: u32,
    pub column: u32,
    /// Tells apart the copies of a call that was inlined several times: each
    /// has a debug location of its own.
    pub copy: usize,
    /// The call that its function was inlined at; zero for none. Tells apart the
    /// copies of a function within one.
    pub instance: usize,
}

/// What is written where a scope is: its function and its file.
type Written = Option<(Rc<str>, Rc<str>)>;

/// Reads positions in one module.
pub struct Locator {
    context: LLVMContextRef,
    chains: HashMap<LLVMMetadataRef, Rc<[Position]>>,
    scopes: HashMap<LLVMMetadataRef, Written>,
}

impl Locator {
    /// A locator for a module of `context`, which it must not outlive.
    pub fn new(context: LLVMContextRef) -> Self {
        Locator {
            context,
            chains: HashMap::new(),
            scopes: HashMap::new(),
        }
    }

    /// The positions of an instruction: where it was written first, then the
    /// calls through which it was inlined, outward.
    pub fn positions(&mut self, instruction: LLVMValueRef) -> Rc<[Position]> {
        // SAFETY: `instruction` is an instruction of a live module of the context.
        let location = unsafe { LLVMInstructionGetDebugLoc(instruction) };
        if let Some(known) = self.chains.get(&location) {
            return Rc::clone(known);
        }
        let chain: Rc<[Position]> = self.chain(location).into();
        self.chains.insert(location, Rc::clone(&chain));
        chain
    }

    fn chain(&mut self, location: LLVMMetadataRef) -> Vec<Position> {
        let mut chain = Vec::new();
        let mut location = location;
        while !location.is_null() {
            // SAFETY: `location` is a DILocation: the loop starts at an
            // instruction's and follows inlined-at links, which are DILocations.
            let (line, column, scope, outer) = unsafe {
                (
                    LLVMDILocationGetLine(location),
                    LLVMDILocationGetColumn(location),
                    LLVMDILocationGetScope(location),
                    LLVMDILocationGetInlinedAt(location),
                )
            };
            if let Some((function, file)) = self.written(scope) {
                chain.push(Position {
                    function,
                    file,
                    line,
                    column,
                    copy: location as usize,
                    instance: outer as usize,
                });
            }
            location = outer;
        }
        chain
    }

    fn written(&mut self, scope: LLVMMetadataRef) -> Written {
        let context = self.context;
        let read = || {
            let function = enclosing_function(context, scope)?;
            Some((function.into(), file_of(scope).into()))
        };
        self.scopes.entry(scope).or_insert_with(read).clone()
    }
}

/// The name under which debug info knows a function.
pub fn subprogram_of(function: FunctionValue<'_>) -> Option<String> {
    // SAFETY: the function is alive; one without debug info answers null.
    unsafe {
        let subprogram = LLVMGetSubprogram(function.as_value_ref());
        let context = LLVMGetModuleContext(LLVMGetGlobalParent(function.as_value_ref()));
        enclosing_function(context, subprogram)
    }
}

/// `DILexicalBlock` and `DILexicalBlockFile` hold (file, scope); `DISubprogram`
/// holds (file, scope, name, linkage name, …).
const SCOPE: usize = 1;
const NAME: usize = 2;
const LINKAGE_NAME: usize = 3;

fn enclosing_function(context: LLVMContextRef, scope: LLVMMetadataRef) -> Option<String> {
    let mut scope = scope;
    // Lexical blocks nest as deep as the source does; the bound only guards
    // against metadata that is not what it says.
    for _ in 0..1024 {
        if scope.is_null() {
            return None;
        }
        let operands = operands(context, scope);
        // SAFETY: `scope` is a live metadata node.
        match unsafe { LLVMGetMetadataKind(scope) } {
            LLVMMetadataKind::LLVMDISubprogramMetadataKind => {
                return text(operands.get(LINKAGE_NAME).copied())
                    .or_else(|| text(operands.get(NAME).copied()));
            }
            LLVMMetadataKind::LLVMDILexicalBlockMetadataKind
            | LLVMMetadataKind::LLVMDILexicalBlockFileMetadataKind => {
                let parent = operands.get(SCOPE).copied().filter(|v| !v.is_null())?;
                // SAFETY: the operand of a metadata node is metadata as a value.
                scope = unsafe { LLVMValueAsMetadata(parent) };
            }
            _ => return None,
        }
    }
    None
}

/// The operands of a metadata node; null where one is missing.
pub fn operands(context: LLVMContextRef, node: LLVMMetadataRef) -> Vec<LLVMValueRef> {
    // SAFETY: `node` is a metadata node of `context`; the vector has exactly
    // as many places as the node says it has operands.
    unsafe {
        let value = LLVMMetadataAsValue(context, node);
        let mut operands = vec![std::ptr::null_mut(); LLVMGetMDNodeNumOperands(value) as usize];
        LLVMGetMDNodeOperands(value, operands.as_mut_ptr());
        operands
    }
}

fn text(value: Option<LLVMValueRef>) -> Option<String> {
    let value = value.filter(|v| !v.is_null())?;
    let mut length = 0;
    // SAFETY: `value` is metadata as a value; for anything but a string LLVM
    // answers null.
    let bytes = unsafe { LLVMGetMDString(value, &mut length) };
    bytes_to_string(bytes.cast(), length)
}

fn file_of(scope: LLVMMetadataRef) -> String {
    // SAFETY: `scope` is a live DIScope; a scope without a file answers null.
    let file = unsafe { LLVMDIScopeGetFile(scope) };
    if file.is_null() {
        return String::new();
    }
    let (mut name_length, mut directory_length) = (0, 0);
    // SAFETY: `file` is a live DIFile, and both lengths are written by LLVM.
    let (name, directory) = unsafe {
        (
            LLVMDIFileGetFilename(file, &mut name_length),
            LLVMDIFileGetDirectory(file, &mut directory_length),
        )
    };
    let name = bytes_to_string(name.cast(), name_length).unwrap_or_default();
    let directory = bytes_to_string(directory.cast(), directory_length).unwrap_or_default();
    if name.starts_with('/') || directory.is_empty() {
        name
    } else {
        format!("{directory}/{name}")
    }
}

fn bytes_to_string(bytes: *const u8, length: u32) -> Option<String> {
    if bytes.is_null() || length == 0 {
        return None;
    }
    // SAFETY: LLVM gave a pointer to `length` bytes that live as long as the
    // context, and they are copied at once.
    let bytes = unsafe { std::slice::from_raw_parts(bytes, length as usize) };
    Some(String::from_utf8_lossy(bytes).into_owned())
}
