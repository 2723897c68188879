//! Metadata of a live [`Module`]: debug locations and debug types.

use super::{MetadataKind, Module, text};
use inkwell::llvm_sys::core::*;
use inkwell::llvm_sys::debuginfo::*;
use inkwell::llvm_sys::prelude::*;
use std::marker::PhantomData;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Metadata<'m>(pub(super) LLVMMetadataRef, PhantomData<&'m Module>);

impl<'m> Metadata<'m> {
    pub(super) fn new(raw: LLVMMetadataRef) -> Option<Metadata<'m>> {
        (!raw.is_null()).then_some(Metadata(raw, PhantomData))
    }

    pub fn kind(self) -> MetadataKind {
        // SAFETY: live metadata; the enumeration matches LLVM 19's.
        unsafe { LLVMGetMetadataKind(self.0) }
    }

    pub(super) fn is_node(self) -> bool {
        // LLVM lists strings and wrapped values first and all MDNodes after them.
        self.kind() as u32 >= MetadataKind::LLVMMDTupleMetadataKind as u32
            && !matches!(self.kind(), MetadataKind::LLVMDIArgListMetadataKind)
    }

    /// Line, column and scope of a DILocation.
    pub fn location(self) -> Option<(u32, u32, Metadata<'m>)> {
        if !matches!(self.kind(), MetadataKind::LLVMDILocationMetadataKind) {
            return None;
        }
        // SAFETY: a live DILocation.
        unsafe {
            let scope = Metadata::new(LLVMDILocationGetScope(self.0))?;
            let line = LLVMDILocationGetLine(self.0);
            Some((line, LLVMDILocationGetColumn(self.0), scope))
        }
    }

    /// Directory and name of the file of a scope.
    pub fn scope_file(self) -> Option<(String, String)> {
        // SAFETY: callers ask this of scopes only; LLVM owns the texts.
        unsafe {
            let file = Metadata::new(LLVMDIScopeGetFile(self.0))?;
            let mut length = 0;
            let directory = LLVMDIFileGetDirectory(file.0, &mut length);
            let directory = text(directory, length as usize);
            let name = LLVMDIFileGetFilename(file.0, &mut length);
            Some((directory, text(name, length as usize)))
        }
    }

    pub fn is_type(self) -> bool {
        matches!(
            self.kind(),
            MetadataKind::LLVMDIBasicTypeMetadataKind
                | MetadataKind::LLVMDIDerivedTypeMetadataKind
                | MetadataKind::LLVMDICompositeTypeMetadataKind
                | MetadataKind::LLVMDISubroutineTypeMetadataKind
        )
    }

    pub fn type_name(self) -> String {
        if !self.is_type() {
            return String::new();
        }
        let mut length = 0;
        // SAFETY: a live DIType; LLVM owns the name.
        unsafe {
            let data = LLVMDITypeGetName(self.0, &mut length);
            text(data, length)
        }
    }

    /// Size and offset of a type node in bits.
    pub fn type_extent(self) -> (u64, u64) {
        if !self.is_type() {
            return (0, 0);
        }
        // SAFETY: a live DIType.
        unsafe {
            let size = LLVMDITypeGetSizeInBits(self.0);
            (size, LLVMDITypeGetOffsetInBits(self.0))
        }
    }

    /// The DWARF tag of a DINode; 0 for other metadata.
    pub fn tag(self) -> u16 {
        // SAFETY: live metadata; LLVM itself answers 0 for other kinds.
        unsafe { LLVMGetDINodeTag(self.0) }
    }

    /// The text of a string node, found through its owner's operands.
    pub fn string(self, module: &'m Module) -> Option<String> {
        if !matches!(self.kind(), MetadataKind::LLVMMDStringMetadataKind) {
            return None;
        }
        let mut length = 0;
        // SAFETY: a live string node of this module's context.
        unsafe {
            let value = LLVMMetadataAsValue(module.context, self.0);
            let data = LLVMGetMDString(value, &mut length);
            Some(text(data, length as usize))
        }
    }
}
