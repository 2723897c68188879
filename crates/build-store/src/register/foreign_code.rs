//! Code of a binary that no module accounts for, and where it came from. Pure.
//!
//! Hooks cannot go there, and a sketch must be able to say so. A function is
//! foreign when no module defines its name and no module's function lies at its
//! address. Its origin is the link line's input that defines it, else the
//! source file that the symbol table names, else unknown.

use std::collections::{BTreeMap, HashMap, HashSet};

use object::read::elf::ElfFile64;
use object::{Object, ObjectSection};

use crate::manifest::ForeignCode;
use formats::elf_functions::{Function, functions};

/// An input of the link without bitcode.
#[derive(Debug)]
pub struct ForeignInput {
    pub name: String,
    pub reason: String,
    pub functions: Vec<String>,
}

impl ForeignInput {
    /// Reads an object file; anything else yields an input without functions.
    pub fn from_object(name: String, bytes: &[u8]) -> Self {
        let file: Option<ElfFile64<'_>> = ElfFile64::parse(bytes).ok();
        // Many symbols may share one long name; those of real files take less than the file.
        let mut left = bytes.len();
        let mut fits = |name: &str| match left.checked_sub(name.len()) {
            Some(less) => {
                left = less;
                true
            }
            None => false,
        };
        ForeignInput {
            name,
            reason: reason(bytes, file.as_ref()),
            functions: file
                .map(|file| functions(&file))
                .unwrap_or_default()
                .iter()
                .take_while(|function| fits(function.name))
                .map(|function| function.name.to_string())
                .collect(),
        }
    }

    pub fn assembly(name: String) -> Self {
        ForeignInput {
            name,
            reason: "assembly".to_string(),
            functions: Vec::new(),
        }
    }
}

fn reason(bytes: &[u8], file: Option<&ElfFile64<'_>>) -> String {
    if bytes.starts_with(b"BC\xC0\xDE") {
        return "object for link-time optimisation (-flto)".to_string();
    }
    let comment = file
        .and_then(|file| file.section_by_name(".comment"))
        .and_then(|section| section.data().ok())
        .map(|data| String::from_utf8_lossy(data).into_owned())
        .unwrap_or_default();
    let compiler = comment.split('\0').find(|part| !part.is_empty());
    match compiler {
        None => "assembly".to_string(),
        Some(compiler) if compiler.contains("clang") => {
            "compiled by clang without failsketch-cc".to_string()
        }
        Some(compiler) => format!("compiled by another compiler ({compiler})"),
    }
}

/// Functions of the start files and of the part of libc that is always linked in.
const START_FILES: &[&str] = &[
    "_start",
    "_init",
    "_fini",
    "_dl_relocate_static_pie",
    "__libc_csu_init",
    "__libc_csu_fini",
    "__do_global_dtors_aux",
    "__do_global_ctors_aux",
    "deregister_tm_clones",
    "register_tm_clones",
    "frame_dummy",
    "atexit",
    "at_quick_exit",
    "pthread_atfork",
    "__pthread_atfork",
    "__stack_chk_fail_local",
    "_etext",
    "etext",
    "__etext",
];

/// Groups the functions of `binary` that are in none of the modules, which
/// define the functions `defined`.
pub fn foreign_code(
    binary: &ElfFile64<'_>,
    defined: &HashSet<&str>,
    inputs: &[ForeignInput],
) -> Vec<ForeignCode> {
    let all = functions(binary);
    let mut own: Vec<(u64, u64)> = all
        .iter()
        .filter(|function| function.typed && defined.contains(function.name))
        .map(|function| {
            (
                function.address,
                function.address + function.bytes.len().max(1) as u64,
            )
        })
        .collect();
    own.sort_unstable();
    let is_own = |function: &Function<'_>| {
        let after = own.partition_point(|(start, _)| *start <= function.address);
        after > 0 && function.address < own[after - 1].1
    };
    let input_of: HashMap<&str, &ForeignInput> = inputs
        .iter()
        .flat_map(|input| {
            input
                .functions
                .iter()
                .map(move |function| (function.as_str(), input))
        })
        .collect();

    let mut groups: BTreeMap<(Option<String>, String), Vec<String>> = BTreeMap::new();
    for function in &all {
        if is_own(function) || START_FILES.contains(&function.name) {
            continue;
        }
        let key = match input_of.get(function.name) {
            Some(input) => (Some(input.name.clone()), input.reason.clone()),
            None => (
                function.file.map(str::to_string),
                "no bitcode: assembly, link-time optimised or foreign object".to_string(),
            ),
        };
        groups
            .entry(key)
            .or_default()
            .push(function.name.to_string());
    }
    groups
        .into_iter()
        .map(|((origin, reason), mut functions)| {
            functions.sort();
            functions.dedup();
            let function_count = functions.len();
            functions.truncate(ForeignCode::NAMED);
            ForeignCode {
                origin,
                reason,
                functions,
                function_count,
            }
        })
        .collect()
}
