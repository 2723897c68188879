//! The next definition of a function after our own, in the order in which the
//! loader searches.
//!
//! What `dlsym(RTLD_NEXT, …)` does, without it: before glibc 2.34 that function
//! lives in a library that a program need not have, and an interposed function
//! may be called before any constructor has run. The loader's list of objects
//! and their GNU hash tables are all that is needed.
//!
//! A function may have several versions (`pthread_cond_wait` has two, which do not
//! understand each other's condition variables). An object that knows no versions has
//! the one that is asked for. If none is asked for, it is the default one or, as the
//! loader does it, an old one that is the only one.

use core::{arch::asm, ptr::null};

const DT_STRTAB: u64 = 5;
const DT_SYMTAB: u64 = 6;
const DT_GNU_HASH: u64 = 0x6fff_fef5;
const DT_VERSYM: u64 = 0x6fff_fff0;
const DT_VERDEF: u64 = 0x6fff_fffc;
/// In the table of versions: not the default one.
const HIDDEN: u16 = 1 << 15;
/// No program loads more objects.
const MOST_OBJECTS: usize = 4096;

/// `struct link_map`, as far as debuggers may rely on it.
#[repr(C)]
struct LinkMap {
    bias: u64,
    name: *const u8,
    dynamic: *const [u64; 2],
    next: *const LinkMap,
}

/// `struct r_debug`.
#[repr(C)]
struct Loader {
    version: i32,
    maps: *const LinkMap,
}

unsafe extern "C" {
    /// The loader's own; every dynamic program has it.
    static _r_debug: Loader;
}

/// A function of another object.
#[derive(Clone, Copy)]
pub struct Found {
    pub address: usize,
    /// Tells the objects apart.
    pub object: usize,
}

/// What the loader has added to the addresses of the program's file.
pub fn program_bias() -> u64 {
    // SAFETY: the loader's list begins with the program.
    unsafe { (*_r_debug.maps).bias }
}

/// The first definition of `name` after ours, of `version` if one is given; `None` if
/// nothing follows.
pub fn next(name: &str, version: Option<&str>) -> Option<Found> {
    let hash = gnu_hash(name);
    // SAFETY: the loader's list is complete before any code of a loaded object
    // runs, and objects that are added later come at its end.
    unsafe {
        let own = own_dynamic();
        let mut map = _r_debug.maps;
        let mut passed = false;
        let mut objects = 0;
        while !map.is_null() && objects < MOST_OBJECTS {
            if passed
                && let Some(tables) = Tables::of(map)
                && let Some(address) = tables.find(name, version, hash)
            {
                return Some(Found {
                    address,
                    object: map as usize,
                });
            }
            passed |= (*map).dynamic == own;
            map = (*map).next;
            objects += 1;
        }
    }
    None
}

/// Whether an object that comes before ours defines `name`: then nobody calls ours.
pub fn is_defined_before_us(name: &str) -> bool {
    let hash = gnu_hash(name);
    // SAFETY: as in `next`.
    unsafe {
        let own = own_dynamic();
        let mut map = _r_debug.maps;
        let mut objects = 0;
        while !map.is_null() && (*map).dynamic != own && objects < MOST_OBJECTS {
            if let Some(tables) = Tables::of(map)
                && tables.find(name, None, hash).is_some()
            {
                return true;
            }
            map = (*map).next;
            objects += 1;
        }
    }
    false
}

fn own_dynamic() -> *const [u64; 2] {
    let dynamic: usize;
    // SAFETY: the linker defines the symbol in every shared object.
    unsafe {
        asm!(
            ".hidden _DYNAMIC",
            "lea {0}, [rip + _DYNAMIC]",
            out(reg) dynamic,
            options(nomem, nostack, preserves_flags)
        );
    }
    dynamic as *const [u64; 2]
}

fn gnu_hash(name: &str) -> u32 {
    let mut hash: u32 = 5381;
    for byte in name.as_bytes() {
        hash = hash.wrapping_mul(33).wrapping_add(*byte as u32);
    }
    hash
}

/// What the dynamic section of an object says about its symbols.
struct Tables {
    bias: u64,
    strings: *const u8,
    symbols: *const u8,
    hashes: *const u32,
    /// By symbol, its version's number; null in an object without versions.
    versions: *const u16,
    /// What the versions that the object defines are called; null if it defines none.
    definitions: *const u8,
}

impl Tables {
    /// # Safety
    /// `map` must be the loader's.
    unsafe fn of(map: *const LinkMap) -> Option<Tables> {
        // SAFETY: the loader has mapped and relocated the object; its dynamic section
        // ends with a tag of zero.
        unsafe {
            let bias = (*map).bias;
            // The loader relocates these entries in place, but not those of objects
            // that it did not map (the vdso), nor all of them in every version.
            let at = |value: u64| if value < bias { value + bias } else { value };
            let mut tables = Tables {
                bias,
                strings: null(),
                symbols: null(),
                hashes: null(),
                versions: null(),
                definitions: null(),
            };
            let mut entry = (*map).dynamic;
            if entry.is_null() {
                return None;
            }
            loop {
                let [tag, value] = *entry;
                match tag {
                    0 => break,
                    DT_STRTAB => tables.strings = at(value) as *const u8,
                    DT_SYMTAB => tables.symbols = at(value) as *const u8,
                    DT_GNU_HASH => tables.hashes = at(value) as *const u32,
                    DT_VERSYM => tables.versions = at(value) as *const u16,
                    DT_VERDEF => tables.definitions = at(value) as *const u8,
                    _ => {}
                }
                entry = entry.add(1);
            }
            let whole =
                !tables.strings.is_null() && !tables.symbols.is_null() && !tables.hashes.is_null();
            whole.then_some(tables)
        }
    }

    /// # Safety
    /// The tables must be a loaded object's.
    unsafe fn find(&self, name: &str, version: Option<&str>, hash: u32) -> Option<usize> {
        // SAFETY: tables of the dynamic section are as the ELF specification says.
        unsafe {
            let table = self.hashes;
            let (buckets, first, words) = (*table, *table.add(1), *table.add(2));
            if buckets == 0 {
                return None;
            }
            let bucket = table.add(4 + 2 * words as usize);
            let chain = bucket.add(buckets as usize);
            let mut index = *bucket.add((hash % buckets) as usize);
            if index < first {
                return None;
            }
            let mut old = None;
            loop {
                let entry = *chain.add((index - first) as usize);
                if entry | 1 == hash | 1
                    && let Some(address) = self.function(index as usize, name)
                {
                    match version {
                        Some(version) if self.is_version(index as usize, version) => {
                            return Some(address);
                        }
                        None if !self.is_hidden(index as usize) => return Some(address),
                        None if old.is_none() => old = Some(address),
                        _ => {}
                    }
                }
                if entry & 1 != 0 {
                    return old;
                }
                index += 1;
            }
        }
    }

    /// The address of a symbol if it is a defined function of this name.
    ///
    /// # Safety
    /// As [`Tables::find`]; the object must have the symbol.
    unsafe fn function(&self, index: usize, name: &str) -> Option<usize> {
        const FUNCTION: u8 = 2;
        // SAFETY: the caller's promise.
        unsafe {
            // Elf64_Sym: name, info, other, section, value, size.
            let symbol = self.symbols.add(24 * index);
            let its_name = self.strings.add(symbol.cast::<u32>().read() as usize);
            let kind = *symbol.add(4) & 15;
            let section = symbol.add(6).cast::<u16>().read();
            let value = symbol.add(8).cast::<u64>().read();
            let is_it = section != 0 && kind == FUNCTION && is(its_name, name);
            is_it.then_some((self.bias + value) as usize)
        }
    }

    /// # Safety
    /// As [`Tables::function`].
    unsafe fn is_hidden(&self, index: usize) -> bool {
        // SAFETY: the table has an entry for each symbol.
        !self.versions.is_null() && unsafe { *self.versions.add(index) } & HIDDEN != 0
    }

    /// # Safety
    /// As [`Tables::function`].
    unsafe fn is_version(&self, index: usize, version: &str) -> bool {
        if self.versions.is_null() || self.definitions.is_null() {
            return true;
        }
        // SAFETY: the table has an entry for each symbol; definitions are a list that
        // ends with a distance of zero, and each has a name at least.
        unsafe {
            let number = *self.versions.add(index) & !HIDDEN;
            // Elf64_Verdef: version, flags, number, count, hash, names at, next at.
            let mut definition = self.definitions;
            loop {
                if definition.add(4).cast::<u16>().read() == number {
                    let names = definition.add(12).cast::<u32>().read() as usize;
                    let its_name = definition.add(names).cast::<u32>().read() as usize;
                    return is(self.strings.add(its_name), version);
                }
                match definition.add(16).cast::<u32>().read() {
                    0 => return false,
                    next => definition = definition.add(next as usize),
                }
            }
        }
    }
}

/// # Safety
/// `text` must be zero-terminated.
unsafe fn is(text: *const u8, name: &str) -> bool {
    let mut at = 0;
    for byte in name.as_bytes() {
        // SAFETY: a terminator differs from every byte of a name.
        if unsafe { *text.add(at) } != *byte {
            return false;
        }
        at += 1;
    }
    // SAFETY: all bytes before were no terminators.
    unsafe { *text.add(at) == 0 }
}
