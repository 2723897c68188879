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
use crate::sandbox::Limits;
use crate::tools::{ToolError, Tools, read_made};
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

/// Why there is no proof at all; what is wrong with one module is in its status.
#[derive(Debug, thiserror::Error)]
pub enum ProofError {
    #[error(transparent)]
    Binary(#[from] object::Error),
    #[error(transparent)]
    Tool(#[from] ToolError),
    #[error("its modules grow to more than {megabytes} MiB when they are optimised")]
    Grows { megabytes: u64 },
}

/// Module compilations that run at a time: they need memory more than anything.
const WORKERS: usize = 2;

/// Proves all modules of `binary`; `progress` hears the index of each module that is done.
pub fn prove(
    binary: &[u8],
    modules: &[EmbeddedModule],
    workspace: &Path,
    tools: &Tools,
    progress: &mut dyn FnMut(usize),
) -> Result<Vec<ModuleProof>, ProofError> {
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
    let mut failed: Option<ProofError> = None;
    let given: usize = modules.iter().map(|module| module.bitcode.len()).sum();
    let most = most_optimised(given as u64);
    let mut optimised: u64 = 0;
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
                    let result = compare_module(module, index, workspace, tools, linked);
                    if sender.send((index, result)).is_err() {
                        break;
                    }
                }
            });
        }
        drop(sender);
        // With the loop ends the receiver, and with it each worker.
        for (index, result) in receiver {
            let result = match result {
                Ok(result) => result,
                Err(error) => {
                    failed = Some(error.into());
                    break;
                }
            };
            optimised += result.optimised.as_ref().map_or(0, |it| it.len() as u64);
            if optimised > most {
                let megabytes = most >> 20;
                failed = Some(ProofError::Grows { megabytes });
                break;
            }
            compared[index] = Some(result);
            progress(index);
        }
    });
    if let Some(error) = failed {
        return Err(error);
    }

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

/// Bytes of optimised bitcode that modules of so many bytes may come to, all together: all
/// of it is held until the store is written. Real programs stay below twice as much.
fn most_optimised(given: u64) -> u64 {
    const MOST_TIMES: u64 = 16;
    const SMALL: u64 = 256 << 20;
    given.saturating_mul(MOST_TIMES).saturating_add(SMALL)
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

/// Compares one module; an error ends the whole proof.
fn compare_module(
    module: &EmbeddedModule,
    index: usize,
    workspace: &Path,
    tools: &Tools,
    linked: &Linked<'_>,
) -> Result<Compared, ToolError> {
    if let Err(refused) = flags::for_bitcode(&module.flags) {
        let reason = format!("of its compiler flags, {refused}");
        return Ok(Compared::failed(reason));
    }
    // A folder for each module: what reads one must not write what is read of another.
    let folder = workspace.join(index.to_string());
    let compiled = compile_twice(module, &folder, tools);
    // Only to bound the disk use of large builds; the workspace goes anyway.
    let _ = std::fs::remove_dir_all(&folder);
    Ok(match compiled? {
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
    })
}

/// A module's optimised bitcode and object, or why there are none.
type Recompiled = Result<(Vec<u8>, Vec<u8>), String>;

fn compile_twice(
    module: &EmbeddedModule,
    folder: &Path,
    tools: &Tools,
) -> Result<Recompiled, ToolError> {
    let path = |extension: &str| folder.join(format!("module.{extension}"));
    let (embedded, optimised, object) = (path("bc"), path("opt.bc"), path("o"));
    let written =
        std::fs::create_dir(folder).and_then(|()| std::fs::write(&embedded, &module.bitcode));
    if let Err(error) = written {
        let reason = format!("{} could not be written: {error}", embedded.display());
        return Ok(Err(reason));
    }
    let stages = [
        (
            Stage::Optimise,
            &embedded,
            &optimised,
            "its bitcode does not compile again",
        ),
        (
            Stage::ObjectFromOptimised,
            &optimised,
            &object,
            "its optimised bitcode does not compile",
        ),
    ];
    for (stage, from, to, problem) in stages {
        match recompile::compile(&module.flags, stage, from, to, tools) {
            Ok(()) => {}
            Err(error @ ToolError::OutOfTime { .. }) => return Err(error),
            Err(error) => return Ok(Err(format!("{problem}: {error}"))),
        }
    }
    let read = |path: &Path| {
        read_made(path, Limits::TOOL)
            .map_err(|error| format!("{} could not be read: {error}", path.display()))
    };
    Ok(read(&optimised).and_then(|optimised| Ok((optimised, read(&object)?))))
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
