//! Puts objects into the appended segment and binds them to P.
//!
//! A linker for one case: objects of clang's for x86-64, bound to a program
//! whose addresses are fixed. The relocations are those of the psABI, 4.4.1; one
//! that is not known here refuses the whole build, it is never guessed.
//!
//! Deliberately absent: merging of strings, garbage collection beyond
//! `input.rs`, archives, symbol versions, shared objects.

use super::Image;
use super::entry::GATE_SIZE;
use crate::clones::code::input::{Input, Part, Relocation};
use crate::clones::elf::original::{Meaning, Original};
use crate::clones::refusal::Refusal;
use formats::segments::put;
use object::elf::*;
use object::{Object, ObjectSymbol, SymbolIndex};
use std::collections::{BTreeMap, HashMap};

/// What a relocation's symbol is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Target {
    Address(u64),
    ThreadLocal(i64),
    Imported(u32),
}

/// Where everything is, once room was made for it.
pub struct Linker<'a, 'd> {
    original: &'a Original<'d>,
    inputs: &'a [Input<'a>],
    /// By input, then section: an address, or an offset into debug info.
    places: Vec<Vec<u64>>,
    runtime: HashMap<String, u64>,
    runtime_thread_locals: HashMap<String, i64>,
    /// Own words of a global offset table: the next free one, and those in use.
    next_slot: u64,
    last_slot: u64,
    slots: BTreeMap<(bool, u64), u64>,
}

impl<'a, 'd> Linker<'a, 'd> {
    pub fn new(original: &'a Original<'d>, inputs: &'a [Input<'a>]) -> Self {
        Linker {
            original,
            inputs,
            places: inputs.iter().map(|i| vec![0; i.sections.len()]).collect(),
            runtime: HashMap::new(),
            runtime_thread_locals: HashMap::new(),
            next_slot: 0,
            last_slot: 0,
            slots: BTreeMap::new(),
        }
    }

    /// Makes room in the read-only piece for the sections of one part, and in front
    /// of code for a gate.
    pub fn place_constant(&mut self, image: &mut Image, part: Part) {
        for (input, places) in self.inputs.iter().zip(&mut self.places) {
            for (section, place) in input.sections.iter().zip(places) {
                if section.part == part {
                    if part == Part::Code {
                        image.code.reserve(GATE_SIZE, GATE_SIZE);
                    }
                    *place = image.code.reserve(section.size, section.align);
                    let at = (*place - image.code.address) as usize;
                    image.code.bytes[at..at + section.bytes.len()].copy_from_slice(section.bytes);
                }
            }
        }
    }

    /// Makes room for data, for words of a global offset table, and last for zeros.
    pub fn place_data(&mut self, image: &mut Image) {
        for (input, places) in self.inputs.iter().zip(&mut self.places) {
            for (section, place) in input.sections.iter().zip(places) {
                if section.part == Part::Data {
                    *place = image.data.reserve(section.size, section.align);
                    let at = (*place - image.data.address) as usize;
                    image.data.bytes[at..at + section.bytes.len()].copy_from_slice(section.bytes);
                }
            }
        }
        let through_table = self.count(uses_slot);
        self.next_slot = image.data.reserve(8 * through_table, 8);
        self.last_slot = image.data.end();
        let mut end = image.data.end();
        for (input, places) in self.inputs.iter().zip(&mut self.places) {
            for (section, place) in input.sections.iter().zip(places) {
                if section.part == Part::Zero {
                    *place = end.next_multiple_of(section.align);
                    end = *place + section.size;
                }
            }
        }
        image.zero = end - image.data.end();
    }

    pub fn place_debug(&mut self, image: &mut Image) {
        for (input, places) in self.inputs.iter().zip(&mut self.places) {
            for (section, place) in input.sections.iter().zip(places) {
                if section.part == Part::Debug {
                    let added = image.debug.entry(section.name.to_owned()).or_default();
                    let before = self.original.debug_sizes.get(section.name);
                    *place = before.copied().unwrap_or_default() + added.len() as u64;
                    added.extend_from_slice(section.bytes);
                }
            }
        }
    }

    /// The runtime's thread-local bytes, and their alignment.
    pub fn thread_local_size(&self) -> (u64, u64) {
        let (mut size, mut align) = (0_u64, 1);
        for section in self.inputs.iter().flat_map(|i| &i.sections) {
            if section.part == Part::ThreadLocal {
                size = size.next_multiple_of(section.align) + section.size;
                align = align.max(section.align);
            }
        }
        (size, align)
    }

    /// Thread-local sections begin at `start` from the thread pointer.
    pub fn place_thread_locals(&mut self, start: i64) {
        let mut at = 0_u64;
        for (input, places) in self.inputs.iter().zip(&mut self.places) {
            for (section, place) in input.sections.iter().zip(places) {
                if section.part == Part::ThreadLocal {
                    at = at.next_multiple_of(section.align);
                    *place = (start + at as i64) as u64;
                    at += section.size;
                }
            }
        }
    }

    /// How many relocations may need a word from the loader.
    pub fn pointers(&self) -> u64 {
        self.count(|kind| kind == R_X86_64_64 || uses_slot(kind))
    }

    fn count(&self, is_one: impl Fn(RelocationType) -> bool) -> u64 {
        let sections = self.inputs.iter().flat_map(|i| &i.sections);
        sections
            .filter(|s| s.part != Part::Debug)
            .flat_map(|s| &s.relocations)
            .filter(|r| is_one(r.kind))
            .count() as u64
    }

    /// The address of a function that input `number` defines.
    pub fn defined(&self, number: usize, name: &str) -> Option<(u64, u64)> {
        let input = &self.inputs[number];
        let mut symbols = input.file.symbols();
        let symbol = symbols.find(|s| s.is_definition() && s.name() == Ok(name))?;
        let section = input.section(symbol.section_index()?)?;
        Some((
            self.places[number][section] + symbol.address(),
            symbol.size(),
        ))
    }

    /// Reads the names that clones may use of the runtime, once it has its place.
    pub fn learn_runtime(&mut self, number: usize) {
        let input = &self.inputs[number];
        for symbol in input.file.symbols().filter(|s| !s.is_undefined()) {
            let (Ok(name), Some(index)) = (symbol.name(), symbol.section_index()) else {
                continue;
            };
            let Some(section) = input.section(index) else {
                continue;
            };
            let address = self.places[number][section].wrapping_add(symbol.address());
            if input.sections[section].part == Part::ThreadLocal {
                self.runtime_thread_locals
                    .insert(name.into(), address as i64);
            } else {
                self.runtime.insert(name.into(), address);
            }
        }
    }

    pub fn runtime(&self, name: &str) -> Result<u64, Refusal> {
        self.runtime
            .get(name)
            .copied()
            .ok_or_else(|| Refusal::Unbound {
                symbol: name.into(),
            })
    }

    /// Writes every relocated field.
    pub fn relocate(&mut self, image: &mut Image) -> Result<(), Refusal> {
        let inputs = self.inputs;
        for (number, input) in inputs.iter().enumerate() {
            for (section, place) in input.sections.iter().zip(self.places[number].clone()) {
                for relocation in &section.relocations {
                    if section.part == Part::Debug {
                        self.relocate_debug(image, number, section.name, place, relocation)?;
                    } else {
                        self.relocate_one(image, number, place + relocation.offset, relocation)?;
                    }
                }
            }
        }
        Ok(())
    }

    fn name(&self, number: usize, symbol: SymbolIndex) -> String {
        let symbol = self.inputs[number].file.symbol_by_index(symbol);
        let name = symbol.ok().and_then(|s| s.name().ok().map(str::to_owned));
        name.unwrap_or_default()
    }

    /// What a symbol of input `number` is; `call` if only to be called.
    fn target(&self, number: usize, index: SymbolIndex, call: bool) -> Result<Target, Refusal> {
        let input = &self.inputs[number];
        let symbol = input.file.symbol_by_index(index)?;
        let name = symbol.name()?;
        if symbol.is_local() || input.bindings.is_none() {
            let section = symbol.section_index().and_then(|s| input.section(s));
            let section = section.ok_or_else(|| Refusal::Unbound {
                symbol: name.into(),
            })?;
            let address = self.places[number][section].wrapping_add(symbol.address());
            return Ok(match input.sections[section].part {
                Part::ThreadLocal => Target::ThreadLocal(address as i64),
                _ => Target::Address(address),
            });
        }
        if let Some(bindings) = input.bindings {
            let callee = bindings.callees.get(name).filter(|_| call);
            if let Some(address) = callee.or_else(|| bindings.addresses.get(name)) {
                return Ok(Target::Address(*address));
            }
            if let Some(offset) = bindings.thread_locals.get(name) {
                return Ok(Target::ThreadLocal(*offset));
            }
        }
        if let Some(address) = self.runtime.get(name) {
            return Ok(Target::Address(*address));
        }
        let hidden = symbol.elf_symbol().st_visibility() == STV_HIDDEN;
        match self.original.meaning(name, hidden) {
            Some(Meaning::Address(address)) => Ok(Target::Address(address)),
            Some(Meaning::ThreadLocal(offset)) => Ok(Target::ThreadLocal(offset)),
            Some(Meaning::Imported(number)) => Ok(Target::Imported(number)),
            None => self
                .own_constant(number, &symbol)
                .ok_or_else(|| Refusal::Unbound {
                    symbol: name.into(),
                }),
        }
    }

    /// A constant that the object brings along because P does not tell where it has it.
    fn own_constant<'f>(&self, number: usize, symbol: &impl ObjectSymbol<'f>) -> Option<Target> {
        let input = &self.inputs[number];
        let section = input.section(symbol.section_index()?)?;
        let place = self.places[number][section];
        let may_be_copied = input.sections[section].merges;
        may_be_copied.then(|| Target::Address(place.wrapping_add(symbol.address())))
    }

    fn relocate_one(
        &mut self,
        image: &mut Image,
        number: usize,
        place: u64,
        relocation: &Relocation,
    ) -> Result<(), Refusal> {
        let addend = relocation.addend;
        let unhandled = || Refusal::Relocation {
            symbol: self.name(number, relocation.symbol),
            kind: relocation.kind.0,
        };
        let target = |call| self.target(number, relocation.symbol, call);
        let address = |call| match target(call)? {
            Target::Address(address) => Ok(address.wrapping_add_signed(addend)),
            _ => Err(unhandled()),
        };
        match relocation.kind {
            R_X86_64_NONE => Ok(()),
            R_X86_64_PC32 => image.write_distance(place, place, address(false)?),
            R_X86_64_PLT32 => image.write_distance(place, place, address(true)?),
            R_X86_64_PC64 => {
                let distance = address(false)?.wrapping_sub(place);
                image.write(place, &distance.to_le_bytes())
            }
            R_X86_64_64 => match target(false)? {
                Target::Address(address) => {
                    image.write_pointer(place, address.wrapping_add_signed(addend))
                }
                Target::Imported(symbol) => {
                    image.write_imported(place, symbol, addend);
                    Ok(())
                }
                Target::ThreadLocal(_) => Err(unhandled()),
            },
            R_X86_64_32 | R_X86_64_32S if !self.original.slides => {
                let value = address(false)?;
                let fits = match relocation.kind {
                    R_X86_64_32 => u32::try_from(value).is_ok(),
                    _ => i32::try_from(value as i64).is_ok(),
                };
                if !fits {
                    return Err(unhandled());
                }
                image.write(place, &(value as u32).to_le_bytes())
            }
            R_X86_64_TPOFF32 => match target(false)? {
                Target::ThreadLocal(offset) => {
                    let offset = i32::try_from(offset + addend).map_err(|_| unhandled())?;
                    image.write(place, &offset.to_le_bytes())
                }
                _ => Err(unhandled()),
            },
            kind if uses_slot(kind) => self.relocate_slot(image, number, place, relocation),
            _ => Err(unhandled()),
        }
    }

    /// A reference through a word that holds the address: P's word, none at all
    /// where the instruction can do without, else a word of our own.
    fn relocate_slot(
        &mut self,
        image: &mut Image,
        number: usize,
        place: u64,
        relocation: &Relocation,
    ) -> Result<(), Refusal> {
        let name = self.name(number, relocation.symbol);
        let is_thread_local = relocation.kind == R_X86_64_GOTTPOFF;
        let end = place.wrapping_add_signed(-relocation.addend);
        if let Some(bindings) = self.inputs[number].bindings {
            let learnt = match is_thread_local {
                true => bindings.thread_local_slots.get(&name).copied(),
                false => bindings.slots.get(&name).copied(),
            };
            let known = learnt.or_else(|| self.original.slot(&name).filter(|_| !is_thread_local));
            if let Some(slot) = known {
                return image.write_distance(place, end, slot);
            }
        }
        let target = self.target(number, relocation.symbol, false)?;
        if let Target::Address(address) = target
            && relocation.addend == -4
            && without_slot(image, place, address)?
        {
            return Ok(());
        }
        let key = match target {
            Target::Address(address) => (false, address),
            Target::ThreadLocal(offset) if is_thread_local => (true, offset as u64),
            Target::Imported(_) | Target::ThreadLocal(_) => {
                return Err(Refusal::Relocation {
                    symbol: name,
                    kind: relocation.kind.0,
                });
            }
        };
        let slot = match self.slots.get(&key) {
            Some(slot) => *slot,
            None => {
                let slot = self.next_slot;
                if slot >= self.last_slot {
                    return Err(Refusal::OutOfReach { what: name });
                }
                self.next_slot += 8;
                self.slots.insert(key, slot);
                match key {
                    (true, offset) => image.write(slot, &offset.to_le_bytes())?,
                    (false, address) => image.write_pointer(slot, address)?,
                }
                slot
            }
        };
        image.write_distance(place, end, slot)
    }

    /// Debug info about something that is not there gets a zero, as linkers do.
    fn relocate_debug(
        &self,
        image: &mut Image,
        number: usize,
        section: &str,
        start: u64,
        relocation: &Relocation,
    ) -> Result<(), Refusal> {
        let base = self.original.debug_sizes.get(section).copied();
        let at = start - base.unwrap_or_default() + relocation.offset;
        let value = match self.target(number, relocation.symbol, false) {
            Ok(Target::Address(address)) => address.wrapping_add_signed(relocation.addend),
            _ => 0,
        };
        let bytes = image.debug.get_mut(section).map(Vec::as_mut_slice);
        let bytes = bytes.unwrap_or_default();
        match relocation.kind {
            R_X86_64_64 => Ok(put(bytes, at, &value.to_le_bytes())?),
            R_X86_64_32 => Ok(put(bytes, at, &(value as u32).to_le_bytes())?),
            _ => Ok(()),
        }
    }
}

fn uses_slot(kind: RelocationType) -> bool {
    [
        R_X86_64_GOTPCREL,
        R_X86_64_GOTPCRELX,
        R_X86_64_REX_GOTPCRELX,
        R_X86_64_GOTTPOFF,
    ]
    .contains(&kind)
}

/// Rewrites a load, call or jump through a word into one that needs none (psABI,
/// B.2). Answers whether it could.
fn without_slot(image: &mut Image, place: u64, address: u64) -> Result<bool, Refusal> {
    let Some(&[opcode, mode]) = image.read(place - 2, 2).and_then(|b| b.first_chunk::<2>()) else {
        return Ok(false);
    };
    match (opcode, mode) {
        // mov x@GOTPCREL(%rip), %reg → lea x(%rip), %reg
        (0x8b, _) => image.write(place - 2, &[0x8d])?,
        // call *x@GOTPCREL(%rip) → addr32 call x
        (0xff, 0x15) => image.write(place - 2, &[0x67, 0xe8])?,
        // jmp *x@GOTPCREL(%rip) → jmp x; nop
        (0xff, 0x25) => {
            image.write(place - 2, &[0xe9])?;
            image.write(place + 3, &[0x90])?;
            image.write_distance(place - 1, place + 3, address)?;
            return Ok(true);
        }
        _ => return Ok(false),
    }
    image.write_distance(place, place + 4, address)?;
    Ok(true)
}
