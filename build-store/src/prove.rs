//! The proof of a build: each module, compiled again, gives the binary's own code.
//!
//! Every module is optimised and then compiled *from the optimised bitcode*,
//! which is the path the instrumenter takes; each function of the object that
//! results must equal the binary's function of the same name, outside of what
//! a linker writes (`relocation_mask.rs`). A module with a function that
//! differs is untrackable, and says which one.
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

use crate::elf_functions::{Function, functions};
use crate::embedded::EmbeddedModule;
use crate::flags;
use crate::manifest::ModuleStatus;
use crate::recompile::{self, Stage};
use crate::relocation_mask::{equal_outside, masked_bytes};

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
                    let result = compare_module(module, index, workspace, linked);
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
        .map(|module| module.conclude(&linked, &accounted_for))
        .collect())
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
    linked: &HashMap<&str, Vec<Function<'_>>>,
) -> Compared {
    if let Err(refused) = flags::for_bitcode(&module.flags) {
        return Compared::failed(format!("of its compiler flags, {refused}"));
    }
    let path = |extension: &str| workspace.join(format!("{index}.{extension}"));
    let (embedded, optimised, object) = (path("bc"), path("opt.bc"), path("o"));
    let compiled = std::fs::write(&embedded, &module.bitcode)
        .map_err(|error| format!("{} could not be written: {error}", embedded.display()))
        .and_then(|()| {
            recompile::compile(&module.flags, Stage::Optimise, &embedded, &optimised)
                .map_err(|error| format!("its bitcode does not compile again: {error}"))
        })
        .and_then(|()| {
            recompile::compile(
                &module.flags,
                Stage::ObjectFromOptimised,
                &optimised,
                &object,
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
    for path in [embedded, optimised, object] {
        // Only to bound the disk use of large builds; the folder goes anyway.
        let _ = std::fs::remove_file(path);
    }
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

fn compare_object(
    object: &[u8],
    linked: &HashMap<&str, Vec<Function<'_>>>,
) -> Result<Compared, object::Error> {
    let file: ElfFile64<'_> = ElfFile64::parse(object)?;
    let mut masks_of_section = HashMap::new();
    let mut compared = Compared {
        failure: None,
        optimised: None,
        defined: Vec::new(),
        absent: 0,
        matched: Vec::new(),
        differing: Vec::new(),
    };
    for function in functions(&file).iter().filter(|function| function.typed) {
        compared.defined.push(function.name.to_string());
        let Some(candidates) = linked.get(function.name) else {
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
        if compared.matched.len() == before {
            compared.differing.push(function.name.to_string());
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
