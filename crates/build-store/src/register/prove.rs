//! The proof of a build: each module, compiled again, gives the binary's own code.
//!
//! Every module is optimised and then compiled *from the optimised bitcode*,
//! which is the path the instrumenter takes; each function of the object that
//! results must equal the binary's function of the same name, outside of what
//! a linker writes (`relocation_mask.rs`), and so must the lines of its instructions
//! (`line_table.rs`). A module with a function that differs is untrackable, and says which
//! one. Lines of inline functions are not compared: the linker took another module's.
//!
//! Functions that are not in the binary (dropped by `--gc-sections`, or another
//! copy of an inline function was taken) are counted. Local functions may share
//! a name: any function of that name that matches will do, and a mismatch
//! counts as "not in the binary" when other modules account for every function
//! of that name.

use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;

use object::read::elf::ElfFile64;
use object::{Object, ObjectSection, RelocationFlags};

use crate::line_table::{LineTable, address_in_object};
use crate::manifest::ModuleStatus;
use crate::register::embedded::EmbeddedModule;
use crate::register::flags;
use crate::register::recompile::{self, Stage};
use crate::register::relocations::{equal_outside, masked_bytes};
use crate::sandbox::Sandbox;
use formats::elf_functions::{Function, functions};

/// What the proof says about one module.
#[derive(Debug)]
pub struct ModuleProof {
    pub status: ModuleStatus,
    /// Absent when the module did not compile.
    pub optimised: Option<Vec<u8>>,
    pub functions: usize,
    pub functions_not_in_binary: usize,
    /// Names of all functions the module defines, in the binary or not.
    pub defined: Vec<String>,
}

/// Module compilations that run at a time: they need memory more than anything.
const WORKERS: usize = 2;

/// Proves all modules of `binary`; `progress` hears the index of each module that is done.
pub fn prove(
    binary: &[u8],
    modules: &[EmbeddedModule],
    workspace: &Path,
    sandbox: Sandbox,
    progress: &mut dyn FnMut(usize),
) -> Result<Vec<ModuleProof>, object::Error> {
    let file: ElfFile64<'_> = ElfFile64::parse(binary)?;
    let mut linked: HashMap<&str, Vec<Function<'_>>> = HashMap::new();
    for function in functions(&file)
        .into_iter()
        .filter(|function| function.typed)
    {
        linked.entry(function.name).or_default().push(function);
    }

    let lines = LineTable::of_linked(&file);
    let linked = Linked {
        functions: linked,
        lines,
    };

    let mut compared: Vec<Option<Compared>> = Vec::new();
    compared.resize_with(modules.len(), || None);
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        let (sender, receiver) = mpsc::channel();
        for _ in 0..WORKERS.min(modules.len()) {
            let (sender, next, linked) = (sender.clone(), &next, &linked);
            scope.spawn(move || {
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    let Some(module) = modules.get(index) else {
                        break;
                    };
                    let result = compare_module(module, index, workspace, sandbox, linked);
                    if sender.send((index, result)).is_err() {
                        break;
                    }
                }
            });
        }
        drop(sender);
        for (index, result) in receiver {
            compared[index] = Some(result);
            progress(index);
        }
    });

    let accounted_for: HashSet<u64> = compared
        .iter()
        .flatten()
        .flat_map(|module| module.matched.iter().copied())
        .collect();
    Ok(compared
        .into_iter()
        .flatten()
        .map(|module| module.conclude(&linked.functions, &accounted_for))
        .collect())
}

/// What modules are compared with.
struct Linked<'d> {
    functions: HashMap<&'d str, Vec<Function<'d>>>,
    lines: LineTable,
}

/// One module compared with the binary, before other modules are taken into account.
struct Compared {
    failure: Option<String>,
    optimised: Option<Vec<u8>>,
    defined: Vec<String>,
    absent: usize,
    /// Addresses of the binary's functions that this module accounts for.
    matched: Vec<u64>,
    differing: Vec<String>,
    /// Functions of equal code that are of other lines.
    on_other_lines: Vec<String>,
}

impl Compared {
    fn failed(reason: String) -> Self {
        Compared {
            failure: Some(reason),
            optimised: None,
            defined: Vec::new(),
            absent: 0,
            matched: Vec::new(),
            differing: Vec::new(),
            on_other_lines: Vec::new(),
        }
    }

    fn conclude(
        self,
        linked: &HashMap<&str, Vec<Function<'_>>>,
        accounted_for: &HashSet<u64>,
    ) -> ModuleProof {
        let (elsewhere, differing): (Vec<String>, Vec<String>) =
            self.differing.into_iter().partition(|name| {
                linked[name.as_str()]
                    .iter()
                    .all(|candidate| accounted_for.contains(&candidate.address))
            });
        let reason = self.failure.or_else(|| match differing.as_slice() {
            [] => None,
            [one] => Some(format!(
                "the code of function {one} differs from the binary's when compiled again"
            )),
            [first, rest @ ..] => Some(format!(
                "the code of function {first} and {} more differs from the binary's when compiled again",
                rest.len()
            )),
        });
        let reason = reason.or_else(|| {
            let function = self.on_other_lines.first()?;
            Some(format!(
                "the lines of function {function} differ from those of the binary's debug info when compiled again"
            ))
        });
        ModuleProof {
            status: match reason {
                None => ModuleStatus::Trackable,
                Some(reason) => ModuleStatus::Untrackable { reason },
            },
            optimised: self.optimised,
            functions: self.defined.len(),
            functions_not_in_binary: self.absent + elsewhere.len(),
            defined: self.defined,
        }
    }
}

fn compare_module(
    module: &EmbeddedModule,
    index: usize,
    workspace: &Path,
    sandbox: Sandbox,
    linked: &Linked<'_>,
) -> Compared {
    if let Err(refused) = flags::for_bitcode(&module.flags) {
        return Compared::failed(format!("of its compiler flags, {refused}"));
    }
    // A folder for each module: what reads one must not write what is read of another.
    let folder = workspace.join(index.to_string());
    let path = |extension: &str| folder.join(format!("module.{extension}"));
    let (embedded, optimised, object) = (path("bc"), path("opt.bc"), path("o"));
    let compiled = std::fs::create_dir(&folder)
        .and_then(|()| std::fs::write(&embedded, &module.bitcode))
        .map_err(|error| format!("{} could not be written: {error}", embedded.display()))
        .and_then(|()| {
            let stage = Stage::Optimise;
            recompile::compile(&module.flags, stage, &embedded, &optimised, sandbox)
                .map_err(|error| format!("its bitcode does not compile again: {error}"))
        })
        .and_then(|()| {
            recompile::compile(
                &module.flags,
                Stage::ObjectFromOptimised,
                &optimised,
                &object,
                sandbox,
            )
            .map_err(|error| format!("its optimised bitcode does not compile: {error}"))
        })
        .and_then(|()| {
            let read = |path: &Path| {
                std::fs::read(path)
                    .map_err(|error| format!("{} could not be read: {error}", path.display()))
            };
            Ok((read(&optimised)?, read(&object)?))
        });
    // Only to bound the disk use of large builds; the workspace goes anyway.
    let _ = std::fs::remove_dir_all(&folder);
    match compiled {
        Err(reason) => Compared::failed(reason),
        Ok((optimised, object)) => match compare_object(&object, linked) {
            Ok(compared) => Compared {
                optimised: Some(optimised),
                ..compared
            },
            Err(error) => Compared {
                optimised: Some(optimised),
                ..Compared::failed(format!(
                    "its object, compiled again, is unreadable: {error}"
                ))
            },
        },
    }
}

fn compare_object(object: &[u8], linked: &Linked<'_>) -> Result<Compared, object::Error> {
    let file: ElfFile64<'_> = ElfFile64::parse(object)?;
    let lines = LineTable::of_object(&file);
    let mut masks_of_section = HashMap::new();
    let mut compared = Compared {
        failure: None,
        optimised: None,
        defined: Vec::new(),
        absent: 0,
        matched: Vec::new(),
        differing: Vec::new(),
        on_other_lines: Vec::new(),
    };
    for function in functions(&file).iter().filter(|function| function.typed) {
        compared.defined.push(function.name.to_string());
        let Some(candidates) = linked.functions.get(function.name) else {
            compared.absent += 1;
            continue;
        };
        let section = file.section_by_index(function.section)?;
        let section_masks = masks_of_section
            .entry(function.section)
            .or_insert_with(|| section_masks(&section));
        let masks = masks_within(section_masks, function);
        let before = compared.matched.len();
        compared.matched.extend(
            candidates
                .iter()
                .filter(|candidate| equal_outside(function.bytes, candidate.bytes, &masks))
                .map(|candidate| candidate.address),
        );
        let matched = &compared.matched[before..];
        if matched.is_empty() {
            compared.differing.push(function.name.to_string());
            continue;
        }
        let (start, length) = (
            address_in_object(function.section, function.offset),
            function.bytes.len() as u64,
        );
        let on_same_lines = matched
            .iter()
            .any(|there| lines.is_within(start, length, &linked.lines, *there));
        if !function.weak && !on_same_lines {
            compared.on_other_lines.push(function.name.to_string());
        }
    }
    Ok(compared)
}

/// The masked ranges of a section, in order of their start.
fn section_masks<'d>(section: &impl ObjectSection<'d>) -> Vec<Range<u64>> {
    let mut masks: Vec<Range<u64>> = section
        .relocations()
        .filter_map(|(offset, relocation)| match relocation.flags() {
            RelocationFlags::Elf { r_type } => Some(masked_bytes(r_type, offset)),
            _ => None,
        })
        .collect();
    masks.sort_by_key(|mask| mask.start);
    masks
}

/// Those masks that touch `function`, relative to its start.
fn masks_within(masks: &[Range<u64>], function: &Function<'_>) -> Vec<Range<i64>> {
    let (start, end) = (
        function.offset,
        function.offset + function.bytes.len() as u64,
    );
    // No mask is longer than 16 bytes.
    let first = masks.partition_point(|mask| mask.start + 16 < start);
    masks[first..]
        .iter()
        .take_while(|mask| mask.start < end)
        .map(|mask| mask.start as i64 - start as i64..mask.end as i64 - start as i64)
        .collect()
}
