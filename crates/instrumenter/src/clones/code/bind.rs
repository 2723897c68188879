//! Where P has what a clone refers to, learnt from P's own code.
//!
//! The plain object's code of a function and P's code of it differ only where
//! the linker wrote. So each relocation of the object, read backward at the same
//! place in P, tells the address that its symbol got: statics and string
//! literals without a symbol, the PLT entry of an imported function, the word of
//! the GOT, the offset of a thread-local variable. That needs no symbol table
//! but for finding the function, and cannot mix up two statics of one name.

use super::same_code::{Pairs, is_jump, pair};
use crate::clones::elf::original::{Function, Original};
use crate::clones::refusal::Refusal;
use formats::cursor::u64_at;
use object::elf::*;
use object::read::elf::ElfFile64;
use object::{Object, ObjectSection, ObjectSymbol, RelocationFlags, RelocationTarget};
use std::collections::HashMap;

/// What the symbols of one module mean in P.
#[derive(Clone, Debug, Default)]
pub struct Bindings {
    pub addresses: HashMap<String, u64>,
    /// Where calls go: for an imported function, its PLT entry.
    pub callees: HashMap<String, u64>,
    /// Words of P that hold the symbol's address.
    pub slots: HashMap<String, u64>,
    /// Offsets from the thread pointer.
    pub thread_locals: HashMap<String, i64>,
    /// Words of P that hold such an offset.
    pub thread_local_slots: HashMap<String, u64>,
}

/// One hooked function of P.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entered {
    pub name: String,
    pub address: u64,
    pub size: u64,
}

/// What P says about the hooked functions of one module.
pub struct Bound {
    pub entered: Vec<Entered>,
    /// Functions that P has with other code, perhaps another module's.
    pub differing: Vec<String>,
    pub bindings: Bindings,
}

/// A relocation within a function, relative to its start.
struct Reference {
    at: u64,
    kind: RelocationType,
    symbol: String,
    addend: i64,
}

/// Finds each of `functions` in P by the code that `plain` has for it. One that
/// is not in P at all (the linker dropped it, or took another module's copy) is
/// left out.
pub fn bind(
    original: &Original<'_>,
    plain: &[u8],
    functions: &[String],
    source: &str,
) -> Result<Bound, Refusal> {
    let file: ElfFile64<'_> = ElfFile64::parse(plain)?;
    let mut bindings = Bindings::default();
    let mut entered = Vec::new();
    let mut differing = Vec::new();
    for name in functions {
        let Some(symbol) = file
            .symbols()
            .find(|s| s.is_definition() && s.name() == Ok(name))
        else {
            continue;
        };
        let Some(section) = symbol.section_index() else {
            continue;
        };
        let section = file.section_by_index(section)?;
        let code = section.data_range(symbol.address(), symbol.size())?;
        let code = code.ok_or_else(|| Refusal::OtherCode {
            function: name.clone(),
        })?;
        let (references, places) = references(&file, &section, symbol.address(), symbol.size());
        if let Some(refusal) = dynamic_thread_local(&places, name) {
            return Err(refusal);
        }
        let candidates = original.functions_named(name);
        let matching: Vec<(&Function<'_>, Pairs)> = candidates
            .iter()
            .filter_map(|candidate| {
                let linked = original.bytes_at(candidate.address, candidate.size)?;
                Some((candidate, pair(code, &places, linked, candidate.address)?))
            })
            .collect();
        let by_file = || {
            let base = source.rsplit('/').next();
            let is_of_file = |f: &Function<'_>| f.file.is_some() && f.file == base;
            let mut of_file = matching.iter().filter(|(f, _)| is_of_file(f));
            of_file.next().filter(|_| of_file.next().is_none())
        };
        let (found, pairs) = match matching.as_slice() {
            [] if candidates.is_empty() => continue,
            [] => {
                differing.push(name.clone());
                continue;
            }
            [one] => one,
            _ => by_file().ok_or_else(|| Refusal::Ambiguous {
                function: name.clone(),
            })?,
        };
        for reference in &references {
            bindings.learn(original, reference, code, pairs);
        }
        entered.push(Entered {
            name: name.clone(),
            address: found.address,
            size: found.size,
        });
    }
    Ok(Bound {
        entered,
        differing,
        bindings,
    })
}

fn references<'d>(
    file: &ElfFile64<'d>,
    section: &impl ObjectSection<'d>,
    start: u64,
    size: u64,
) -> (Vec<Reference>, Vec<(u64, RelocationType)>) {
    let (mut references, mut places) = (Vec::new(), Vec::new());
    for (offset, relocation) in section.relocations() {
        let (Some(at), RelocationFlags::Elf { r_type }) =
            (offset.checked_sub(start), relocation.flags())
        else {
            continue;
        };
        if at >= size {
            continue;
        }
        places.push((at, r_type));
        let symbol = match relocation.target() {
            RelocationTarget::Symbol(index) => file.symbol_by_index(index).ok(),
            _ => None,
        };
        // Local ones are the object's own: jump tables, constants of the code.
        let symbol = symbol.filter(|s| !s.is_local());
        if let Some(Ok(symbol)) = symbol.map(|s| s.name().map(str::to_owned)) {
            references.push(Reference {
                at,
                kind: r_type,
                symbol,
                addend: relocation.addend(),
            });
        }
    }
    (references, places)
}

/// Thread-local accesses of code that could be in a shared object: linkers replace
/// whole sequences of instructions, which is not undone here.
fn dynamic_thread_local(places: &[(u64, RelocationType)], function: &str) -> Option<Refusal> {
    let kinds = [R_X86_64_TLSGD, R_X86_64_TLSLD, R_X86_64_GOTPC32_TLSDESC];
    let (_, kind) = places.iter().find(|(_, kind)| kinds.contains(kind))?;
    Some(Refusal::Relocation {
        symbol: format!("a thread-local variable of {function}"),
        kind: kind.0,
    })
}

impl Bindings {
    /// Whether P's code gives the symbol away.
    pub fn know(&self, symbol: &str) -> bool {
        self.addresses.contains_key(symbol) || self.slots.contains_key(symbol)
    }

    /// Reads in P what the linker made of `reference`.
    fn learn(
        &mut self,
        original: &Original<'_>,
        reference: &Reference,
        code: &[u8],
        pairs: &Pairs,
    ) {
        let symbol = || reference.symbol.clone();
        let Some((own, linked)) = pairs.at(reference.at) else {
            return;
        };
        if is_jump(linked) {
            // Also what was a call through the GOT, which the linker could make direct.
            self.callees.insert(symbol(), linked.near_branch_target());
            return;
        }
        let place = linked.ip() + (reference.at - own.ip());
        let Some(field) = original.word_at(place).map(i64::from) else {
            return;
        };
        let relative = place
            .wrapping_add_signed(field)
            .wrapping_add_signed(-reference.addend);
        // The bytes before the field, as compiled and as linked.
        let at = reference.at as usize;
        let compiled = at.checked_sub(2).and_then(|from| code.get(from..at));
        let now = original.bytes_at(place.wrapping_sub(2), 2);
        let unchanged = compiled == now;
        match reference.kind {
            R_X86_64_PC32 | R_X86_64_PLT32 => {
                self.addresses.insert(symbol(), relative);
            }
            // A 32-bit field holds addresses of programs that do not slide.
            R_X86_64_32 => {
                let address = (field as u32 as u64).wrapping_add_signed(-reference.addend);
                self.addresses.insert(symbol(), address);
            }
            R_X86_64_32S => {
                let address = (field as u64).wrapping_add_signed(-reference.addend);
                self.addresses.insert(symbol(), address);
            }
            R_X86_64_64 if !original.slides => {
                let bytes = original.bytes_at(place, 8).and_then(|b| u64_at(b, 0));
                if let Some(value) = bytes {
                    let address = value.wrapping_add_signed(-reference.addend);
                    self.addresses.insert(symbol(), address);
                }
            }
            R_X86_64_GOTPCREL | R_X86_64_GOTPCRELX | R_X86_64_REX_GOTPCRELX => {
                if unchanged {
                    self.slots.insert(symbol(), relative);
                    return;
                }
                // psABI, B.2: a load from the GOT became a computation, or a
                // constant in a program that does not slide.
                if now.is_some_and(|bytes| bytes[0] == 0x8d) {
                    let address = place.wrapping_add(4).wrapping_add_signed(field);
                    self.addresses.insert(symbol(), address);
                } else if !original.slides {
                    self.addresses.insert(symbol(), field as u64);
                }
            }
            R_X86_64_TPOFF32 => {
                self.thread_locals
                    .insert(symbol(), field - reference.addend);
            }
            R_X86_64_GOTTPOFF if unchanged => {
                self.thread_local_slots.insert(symbol(), relative);
            }
            // "ELF Handling for Thread-Local Storage", 4.5: the offset itself.
            R_X86_64_GOTTPOFF => {
                self.thread_locals.insert(symbol(), field);
            }
            _ => {}
        }
    }
}
