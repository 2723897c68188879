//! Debug info: the file of an instruction, and the names of fields.
//!
//! IR knows a field as a byte offset in a record; its name is in the
//! `DICompositeType` of the same record. LLVM's C API cannot list a module's
//! types, so they are collected by walking the metadata graph from the compile
//! units, the functions and the declared variables. Records are found by name
//! *and* size, because distinct types may share a name.
//!
//! Operand positions in nodes are those of LLVM 19's `DebugInfoMetadata.h`:
//! derived and composite types keep scope at 1, base type at 3, elements at 4,
//! the identifier at 7; local variables keep their type at 3; namespaces keep scope at 1 and name at 2.

use crate::ir::names::{join_path, without_template_arguments};
use crate::load::llvm::{Metadata, MetadataKind, Module};
use rustc_hash::{FxHashMap as HashMap, FxHashSet as HashSet};

const SCOPE: usize = 1;
const NAMESPACE_NAME: usize = 2;
const BASE_TYPE: usize = 3;
const ELEMENTS: usize = 4;
const IDENTIFIER: usize = 7;
const VARIABLE_TYPE: usize = 3;

const TAG_STRUCTURE: u16 = 0x13;
const TAG_UNION: u16 = 0x17;
const TAG_CLASS: u16 = 0x02;
const TAG_MEMBER: u16 = 0x0d;
const TAG_TYPEDEF: u16 = 0x16;
const TAG_POINTER: u16 = 0x0f;
const TAG_REFERENCE: u16 = 0x10;
const TAG_RVALUE_REFERENCE: u16 = 0x42;
const TAG_CONST: u16 = 0x26;
const TAG_VOLATILE: u16 = 0x35;
const TAG_ATOMIC: u16 = 0x47;

/// Anonymous records nest; debug info from outside could do so without end.
const MAX_NESTING: u32 = 16;

/// The path of the file that a scope lies in.
pub(crate) fn path_of(scope: Metadata<'_>) -> String {
    let found = scope.scope_file();
    found.map_or_else(String::new, |(directory, name)| {
        join_path(&directory, &name)
    })
}

/// The record types of one module.
pub(crate) struct DebugInfo<'m> {
    module: &'m Module,
    /// By name and size in bytes.
    records: HashMap<(String, u64), Metadata<'m>>,
}

impl<'m> DebugInfo<'m> {
    /// Collects what can be reached from `roots`.
    pub fn collect(module: &'m Module, roots: Vec<Metadata<'m>>) -> DebugInfo<'m> {
        let mut result = DebugInfo {
            module,
            records: HashMap::default(),
        };
        let mut seen: HashSet<Metadata<'m>> = roots.iter().copied().collect();
        let mut work = roots;
        while let Some(node) = work.pop() {
            result.note_record(node);
            for next in module.node_operands(node).into_iter().flatten() {
                let leads_nowhere = matches!(
                    next.kind(),
                    MetadataKind::LLVMDILocationMetadataKind
                        | MetadataKind::LLVMDIExpressionMetadataKind
                        | MetadataKind::LLVMMDStringMetadataKind
                );
                if !leads_nowhere && seen.insert(next) {
                    work.push(next);
                }
            }
        }
        result
    }

    /// The member of a record at a byte offset.
    pub fn field_name(&self, record: &str, size: u64, offset: u64) -> Option<String> {
        let record = self.records.get(&(record.to_owned(), size))?;
        self.member_name(*record, offset * 8, MAX_NESTING)
    }

    /// The mangled name of the class that a variable points or refers to.
    pub fn class_behind(&self, variable: Metadata<'m>) -> Option<String> {
        if !matches!(
            variable.kind(),
            MetadataKind::LLVMDILocalVariableMetadataKind
        ) {
            return None;
        }
        let pointer = self.plain(self.operand(variable, VARIABLE_TYPE)?)?;
        let is_pointer = matches!(
            pointer.tag(),
            TAG_POINTER | TAG_REFERENCE | TAG_RVALUE_REFERENCE
        );
        let class = self.plain(self.operand(pointer, BASE_TYPE).filter(|_| is_pointer)?)?;
        let is_class = matches!(class.kind(), MetadataKind::LLVMDICompositeTypeMetadataKind);
        let identifier = self.operand(class, IDENTIFIER).filter(|_| is_class)?;
        let identifier = identifier.string(self.module)?;
        identifier.strip_prefix("_ZTS").map(str::to_owned)
    }

    /// A type without its qualifiers and other names.
    fn plain(&self, mut node: Metadata<'m>) -> Option<Metadata<'m>> {
        for _ in 0..MAX_NESTING {
            let is_wrapper = matches!(
                node.tag(),
                TAG_CONST | TAG_VOLATILE | TAG_ATOMIC | TAG_TYPEDEF
            );
            if !is_wrapper {
                break;
            }
            node = self.operand(node, BASE_TYPE)?;
        }
        Some(node)
    }

    fn note_record(&mut self, node: Metadata<'m>) {
        let named = match node.kind() {
            MetadataKind::LLVMDICompositeTypeMetadataKind => node,
            // `typedef struct { … } queue;` names the record by the typedef.
            MetadataKind::LLVMDIDerivedTypeMetadataKind if node.tag() == TAG_TYPEDEF => {
                match self.base_type(node) {
                    Some(base) if base.type_name().is_empty() => base,
                    _ => return,
                }
            }
            _ => return,
        };
        let name = node.type_name();
        let is_record = matches!(named.tag(), TAG_STRUCTURE | TAG_UNION | TAG_CLASS);
        if name.is_empty() || !is_record || named.type_extent().0 == 0 {
            return;
        }
        let name = self.qualified(node, without_template_arguments(&name).to_owned());
        let size = named.type_extent().0 / 8;
        self.records.entry((name, size)).or_insert(named);
    }

    /// The name with its namespaces and classes: `ns::Outer::Inner`.
    fn qualified(&self, node: Metadata<'m>, mut name: String) -> String {
        let mut scope = self.operand(node, SCOPE);
        for _ in 0..MAX_NESTING {
            let Some(outer) = scope else { break };
            let outer_name = match outer.kind() {
                MetadataKind::LLVMDINamespaceMetadataKind => {
                    let name = self.operand(outer, NAMESPACE_NAME);
                    name.and_then(|n| n.string(self.module))
                        .unwrap_or_else(|| "(anonymous namespace)".to_owned())
                }
                MetadataKind::LLVMDICompositeTypeMetadataKind => outer.type_name(),
                _ => break,
            };
            if !outer_name.is_empty() {
                name = format!("{}::{name}", without_template_arguments(&outer_name));
            }
            scope = self.operand(outer, SCOPE);
        }
        name
    }

    fn member_name(&self, record: Metadata<'m>, bit: u64, depth: u32) -> Option<String> {
        let elements = self.operand(record, ELEMENTS)?;
        let members = self.module.node_operands(elements);
        let member = members.into_iter().flatten().find(|member| {
            let (size, offset) = member.type_extent();
            // A bit-field need not begin at its byte; sizes below 8 cover it.
            let start = offset / 8 * 8;
            member.tag() == TAG_MEMBER && size > 0 && (start..offset + size).contains(&bit)
        })?;
        let name = member.type_name();
        let (_, offset) = member.type_extent();
        let inner = self.base_type(member).filter(|ty| {
            let anonymous_record = ty.type_name().is_empty()
                && matches!(ty.kind(), MetadataKind::LLVMDICompositeTypeMetadataKind);
            // The members of a union share their place: its own name says more.
            let shared = ty.tag() == TAG_UNION && !name.is_empty();
            depth > 0 && anonymous_record && !shared && bit >= offset
        });
        let inner = inner.and_then(|ty| self.member_name(ty, bit - offset, depth - 1));
        match (name.is_empty(), inner) {
            (true, inner) => inner,
            (false, Some(inner)) => Some(format!("{name}.{inner}")),
            (false, None) => Some(name),
        }
    }

    /// The type behind a member, typedef or qualifier, through further qualifiers.
    fn base_type(&self, node: Metadata<'m>) -> Option<Metadata<'m>> {
        let mut base = self.operand(node, BASE_TYPE)?;
        for _ in 0..MAX_NESTING {
            let is_qualifier = matches!(base.tag(), TAG_CONST | TAG_VOLATILE | TAG_ATOMIC);
            if !is_qualifier {
                break;
            }
            base = self.operand(base, BASE_TYPE)?;
        }
        Some(base)
    }

    fn operand(&self, node: Metadata<'m>, position: usize) -> Option<Metadata<'m>> {
        let operands = self.module.node_operands(node);
        operands.get(position).copied().flatten()
    }
}
