//! P′ as P plus tracked clones: no relink, and work in proportion to what is hooked.
//!
//! The functions that a plan hooks are taken out of their modules and compiled
//! twice, as they are and with hooks (`extract.rs`). P's own code shows where
//! everything is that they refer to (`same_code.rs`, `bind.rs`). They and the runtime are put
//! into a segment behind P (`input.rs`, `link.rs`, `image.rs`) and entered
//! through jumps in P's functions (`entry.rs`); exceptions unwind
//! through them (`unwind_table.rs`); P's headers list the segment (`headers.rs`,
//! `append.rs`). Everything else of P stays byte by byte what it was.
//!
//! Deliberately absent: shared objects, and leaving a clone in the middle of a
//! loop: a running call ends in the clone that it began in, which is why some
//! functions begin in the tracked one always (`resident.rs`).

pub(crate) mod code;
mod elf;
mod image;
mod refusal;

pub use code::extract::{Stop, source_branches};
pub use refusal::Refusal;

use crate::InstrumentError;
use crate::sites::hosts::{Hosts, choose};
use crate::tracked_build::io;
use build_store::RegisteredBuild;
use code::bind::{Bound, Entered};
use code::extract::Extracted;
use code::input::{Input, Part};
use elf::append::{CODE_SECTION, DATA_SECTION, Edits, append};
use elf::headers::{Moved, moved_tables, to_move};
use elf::original::Original;
use formats::segments::PT_GNU_EH_FRAME;
use image::link::Linker;
use image::{Image, NamedCode};
use object::read::elf::ElfFile64;
use object::{Object, ObjectSection, ObjectSymbol, SectionKind, SymbolKind};
use sketch_model::{Placement, TrackingPlan};
use std::collections::BTreeSet;

/// What gates look at. The second one is the runtime's mark that this process
/// records, as opposed to a forked child of it.
const FLAGS: [&str; 2] = ["__failsketch_enabled", "__failsketch_active"];
const FOR_DEBUGGERS: &str = ".debug_frame";
const CONSTRUCTOR: &str = "__failsketch_constructor";

/// P′ made of clones.
pub struct Cloned {
    pub full: Vec<u8>,
    pub deployed: Vec<u8>,
    pub placement: Placement,
    /// Functions that have clones.
    pub functions: usize,
}

/// Makes P′ from P and clones of what `plan` hooks.
pub fn track_by_clones(build: &RegisteredBuild, plan: &TrackingPlan) -> Result<Cloned, Stop> {
    let folder = tempfile::tempdir().map_err(io("making a folder for the tracked build"))?;
    let surveys = build.manifest().modules.iter().enumerate();
    let surveys =
        surveys.map(|(number, module)| code::extract::survey(build, plan, number, module));
    let surveys: Vec<Hosts> = surveys.collect::<Result<_, _>>()?;
    let (functions, partial) = choose(&surveys);
    let mut modules = Vec::new();
    for (number, functions) in functions.into_iter().enumerate() {
        if !functions.is_empty() {
            let extracted = code::extract::extract(build, plan, number, functions, folder.path())?;
            modules.push(extracted);
        }
    }
    let mut placement = Placement {
        places: vec![0; plan.sites.len()],
        partial,
    };
    for module in &modules {
        placement.add(&module.placement);
    }
    if placement.places.iter().all(|places| *places == 0) {
        let sites = plan.sites.len();
        return Err(InstrumentError::NothingToHook { sites }.into());
    }
    let full = build.binary().map_err(InstrumentError::from)?;
    let deployed = build.deployed().map_err(InstrumentError::from)?;
    let (full, deployed, functions) = assemble(&full, &deployed, &modules)?;
    Ok(Cloned {
        full,
        deployed,
        placement,
        functions,
    })
}

/// A function of P and the clones that it is replaced by.
struct Replaced {
    function: Entered,
    plain: usize,
    tracked: usize,
    /// It runs in its tracked clone always.
    resident: bool,
}

fn assemble(
    full: &[u8],
    deployed: &[u8],
    modules: &[Extracted],
) -> Result<(Vec<u8>, Vec<u8>, usize), Refusal> {
    let original = Original::read(full)?;
    let bound: Vec<Bound> = modules
        .iter()
        .map(|m| code::bind::bind(&original, &m.plain, &m.functions, &m.source))
        .collect::<Result<_, _>>()?;
    let mut inputs = Vec::new();
    for (module, bound) in modules.iter().zip(&bound) {
        inputs.push(Input::read(&module.plain, Some(&bound.bindings))?);
        inputs.push(Input::read(&module.tracked, Some(&bound.bindings))?);
    }
    let runtime = inputs.len();
    inputs.push(Input::read(runtime::LINKABLE, None)?);
    let replaced = replaced(&original, modules, &bound)?;

    let mut image = Image::new(original.end(), original.slides);
    let mut linker = Linker::new(&original, &inputs);
    // Code and constants.
    let initialiser = image.code.reserve(image::entry::INITIALISER_SIZE, 64);
    let annexes = image
        .code
        .reserve(image::entry::ANNEX_SIZE * replaced.len() as u64, 32);
    linker.place_constant(&mut image, Part::Code);
    let code_end = image.code.end();
    linker.place_constant(&mut image, Part::Constant);
    let has_gate = |one: &&Replaced| {
        let plain = linker.defined(one.plain, &one.function.name);
        plain.is_some_and(|(plain, _)| image::entry::has_room(&image, plain))
    };
    // The annexes have one entry together.
    let gate_entries = replaced.iter().filter(has_gate).count() + 1;
    let skipped = elf::unwind_table::entry_code_size(gate_entries);
    let unwind = image.code.reserve(skipped, 8);
    linker.place_constant(&mut image, Part::Unwind);
    let unwind = (unwind, image.code.end() - unwind);
    image.code.reserve(4, 4);
    let unwind_bytes = image.read(unwind.0, unwind.1 as usize).unwrap_or_default();
    // Those for gates and initialiser are not written yet.
    let of_clones = unwind_bytes.get(skipped as usize..).unwrap_or_default();
    let own = elf::unwind_table::entries(of_clones)?.len() + gate_entries + 1;
    let header = original.segment(PT_GNU_EH_FRAME).copied();
    let before = match &header {
        Some(header) => original.unwind_table(header)?,
        None => Vec::new(),
    };
    let table_size = elf::unwind_table::table_size(before.len() + own);
    let table = image.code.reserve(table_size, 4);
    let moved = move_aside(full, &original, &mut image)?;
    let loader_table = elf::loader::reserve(&original, &mut image, linker.pointers());
    // Data.
    image.begin_data();
    let thread_locals = elf::loader::place_thread_locals(&original, &mut image, &mut linker)?;
    linker.place_data(&mut image);
    linker.place_debug(&mut image);
    linker.learn_runtime(runtime);
    linker.relocate(&mut image)?;

    let mut edits = Edits {
        moved,
        thread_locals,
        unwind_table: header.map(|_| (table, table_size)),
        ..Edits::default()
    };
    let (slot, replaced_initialiser) = elf::loader::first_initialiser(full, &original)?;
    let constructor = linker.runtime(CONSTRUCTOR)?;
    image::entry::write_initialiser(&mut image, initialiser, constructor, replaced_initialiser)?;
    edits.bytes.push((slot, initialiser.to_le_bytes().to_vec()));
    edits.bytes.extend(moved_tables(&original, &moved));
    let flags = [linker.runtime(FLAGS[0])?, linker.runtime(FLAGS[1])?];
    let annexes = (annexes, image::entry::ANNEX_SIZE * replaced.len() as u64);
    let mut gates = vec![annexes];
    for (number, one) in replaced.iter().enumerate() {
        let function = &one.function;
        let missing = || Refusal::OtherCode {
            function: function.name.clone(),
        };
        let plain = linker
            .defined(one.plain, &function.name)
            .ok_or_else(missing)?;
        let tracked = linker
            .defined(one.tracked, &function.name)
            .ok_or_else(missing)?;
        let annex = annexes.0 + image::entry::ANNEX_SIZE * number as u64;
        let gate = image::entry::write_gate(&mut image, annex, flags, tracked.0, plain.0)?;
        if gate != annex {
            gates.push((gate, image::entry::GATE_SIZE));
        }
        // A resident clone looks at the switch itself.
        let target = if one.resident { tracked.0 } else { gate };
        let code = original.with_padding(function.address, function.size);
        let (at, jump) = image::entry::jump_from(function, code.unwrap_or_default(), target)?;
        edits.bytes.push((at, jump.to_vec()));
        let clones = [
            ("plain", plain),
            ("tracked", tracked),
            ("gate", (gate, image::entry::GATE_SIZE)),
        ];
        for (kind, (address, size)) in clones {
            let name = format!("{}.failsketch.{kind}", function.name);
            image.names.push(NamedCode {
                name,
                address,
                size,
            });
        }
    }
    add_runtime_names(&mut image, &linker, &inputs[runtime], runtime);
    let initialiser = (initialiser, image::entry::INITIALISER_SIZE);
    elf::unwind_table::write_entry_code(&mut image, unwind.0, initialiser, &gates)?;
    let eh_frame = section_address(full, ".eh_frame")?.unwrap_or(unwind.0);
    elf::unwind_table::write_table(&mut image, table, eh_frame, &before, unwind)?;
    let own_unwind = image.read(unwind.0, unwind.1 as usize).unwrap_or_default();
    let in_p = original.debug_sizes.get(FOR_DEBUGGERS).copied();
    let in_objects = image.debug.get(FOR_DEBUGGERS).map_or(0, Vec::len) as u64;
    let start = in_p.unwrap_or_default() + in_objects;
    let frames = elf::debug_frame::convert(own_unwind, unwind.0, start);
    let section = image.debug.entry(FOR_DEBUGGERS.into()).or_default();
    section.extend(frames);
    let redirected = (slot, initialiser.0);
    let changes = elf::loader::write(
        &original,
        &mut image,
        loader_table,
        thread_locals,
        redirected,
    )?;
    edits.bytes.extend(changes);
    image.sections = vec![
        (
            CODE_SECTION,
            image.code.address,
            code_end - image.code.address,
        ),
        (".tracked.eh_frame", unwind.0, unwind.1),
        (".tracked.eh_frame_hdr", table, table_size),
        (
            DATA_SECTION,
            image.data.address,
            image.data.bytes.len() as u64,
        ),
    ];
    let mut full = append(full, &image, &edits, true)?;
    let mut deployed = append(deployed, &image, &edits, false)?;
    elf::loader::give_build_id(&mut full, &mut deployed)?;
    Ok((full, deployed, replaced.len()))
}

/// The functions of P that are entered by clones, each once.
fn replaced(
    original: &Original<'_>,
    modules: &[Extracted],
    bound: &[Bound],
) -> Result<Vec<Replaced>, Refusal> {
    let mut addresses = BTreeSet::new();
    let mut replaced = Vec::new();
    for (module, bound) in bound.iter().enumerate() {
        for function in &bound.entered {
            // Two modules may have the same inline function.
            if !addresses.insert(function.address) {
                continue;
            }
            for other in original.names_at(function.address) {
                // Another name of it, or a function that the linker folded into it?
                let aliases = &modules[module].aliases;
                if *other != function.name && !aliases.contains(*other) {
                    return Err(Refusal::Folded {
                        function: function.name.clone(),
                        other: (*other).to_owned(),
                    });
                }
            }
            replaced.push(Replaced {
                resident: modules[module].resident.contains(&function.name),
                function: function.clone(),
                plain: 2 * module,
                tracked: 2 * module + 1,
            });
        }
    }
    for name in bound.iter().flat_map(|b| &b.differing) {
        let candidates = original.functions_named(name);
        if !candidates.iter().all(|f| addresses.contains(&f.address)) {
            return Err(Refusal::OtherCode {
                function: name.clone(),
            });
        }
    }
    if replaced.is_empty() {
        return Err(Refusal::unusual(
            "none of the functions that are to be hooked",
        ));
    }
    Ok(replaced)
}

fn move_aside(full: &[u8], original: &Original<'_>, image: &mut Image) -> Result<Moved, Refusal> {
    let file: ElfFile64<'_> = ElfFile64::parse(full)?;
    let sections: Vec<(u64, u64)> = file
        .sections()
        .filter(|s| s.address() != 0 && s.size() > 0)
        .filter(|s| s.kind() != SectionKind::UninitializedTls)
        .map(|s| (s.address(), s.size()))
        .collect();
    let mut moved = to_move(original, &sections)?;
    if moved.size > 0 {
        // The same place within sixteen bytes keeps every alignment that notes have.
        let room = image.code.reserve(moved.size + moved.from % 16, 16);
        moved.to = room + moved.from % 16;
        let bytes = original.bytes_at(moved.from, moved.size);
        let bytes = bytes.ok_or_else(|| Refusal::unusual("headers that are not loaded"))?;
        image.write(moved.to, bytes)?;
    }
    Ok(moved)
}

fn section_address(full: &[u8], name: &str) -> Result<Option<u64>, Refusal> {
    let file: ElfFile64<'_> = ElfFile64::parse(full)?;
    Ok(file.section_by_name(name).map(|s| s.address()))
}

fn add_runtime_names(image: &mut Image, linker: &Linker<'_, '_>, input: &Input<'_>, number: usize) {
    let functions = input
        .file
        .symbols()
        .filter(|s| s.kind() == SymbolKind::Text);
    for symbol in functions.filter(|s| s.is_definition()) {
        let Ok(name) = symbol.name() else { continue };
        if let Some((address, size)) = linker.defined(number, name) {
            image.names.push(NamedCode {
                name: name.to_owned(),
                address,
                size,
            });
        }
    }
}
