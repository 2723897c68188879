//! The next definition of a function after our own, in the order in which the
//! loader searches.
//!
//! What `dlsym(RTLD_NEXT, …)` does, without it: before glibc 2.34 that function
//! lives in a library that a program need not have, and an interposed function
//! may be called before any constructor has run. The loader's list of objects
//! and their GNU hash tables are all that is needed.
//!
//! Versions are not looked at: the functions that we interpose have one each.

use core::{arch::asm, ptr::null};

const DT_STRTAB: u64 = 5;
const DT_SYMTAB: u64 = 6;
const DT_GNU_HASH: u64 = 0x6fff_fef5;
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

/// The first definition of `name` after ours; `None` if nothing follows.
pub fn next(name: &[u8]) -> Option<Found> {
    let hash = gnu_hash(name);
    // SAFETY: the loader's list is complete before any code of a loaded object
    // runs, and objects that are added later come at its end.
    unsafe {
        let own = own_dynamic();
        let mut map = _r_debug.maps;
        let mut passed = false;
        let mut objects = 0;
        while !map.is_null() && objects < MOST_OBJECTS {
            if passed && let Some(address) = defined_in(map, name, hash) {
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

fn gnu_hash(name: &[u8]) -> u32 {
    let mut hash: u32 = 5381;
    for byte in name {
        hash = hash.wrapping_mul(33).wrapping_add(*byte as u32);
    }
    hash
}

/// # Safety
/// `map` must be the loader's.
unsafe fn defined_in(map: *const LinkMap, name: &[u8], hash: u32) -> Option<usize> {
    // SAFETY: the loader has mapped and relocated the object; tables of the
    // dynamic section are as the ELF specification says.
    unsafe {
        let bias = (*map).bias;
        // The loader relocates these entries in place, but not those of objects
        // that it did not map (the vdso).
        let at = |value: u64| if value < bias { value + bias } else { value };
        let (mut strings, mut symbols, mut table) = (null::<u8>(), null::<u8>(), null::<u32>());
        let mut entry = (*map).dynamic;
        if entry.is_null() {
            return None;
        }
        loop {
            let [tag, value] = *entry;
            match tag {
                0 => break,
                DT_STRTAB => strings = at(value) as *const u8,
                DT_SYMTAB => symbols = at(value) as *const u8,
                DT_GNU_HASH => table = at(value) as *const u32,
                _ => {}
            }
            entry = entry.add(1);
        }
        if strings.is_null() || symbols.is_null() || table.is_null() {
            return None;
        }
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
        loop {
            let entry = *chain.add((index - first) as usize);
            if entry | 1 == hash | 1 {
                // Elf64_Sym: name, info, other, section, value, size.
                let symbol = symbols.add(24 * index as usize);
                let its_name = strings.add(symbol.cast::<u32>().read() as usize);
                let kind = *symbol.add(4) & 15;
                let section = symbol.add(6).cast::<u16>().read();
                const FUNCTION: u8 = 2;
                if section != 0 && kind == FUNCTION && is(its_name, name) {
                    let value = symbol.add(8).cast::<u64>().read();
                    return Some((bias + value) as usize);
                }
            }
            if entry & 1 != 0 {
                return None;
            }
            index += 1;
        }
    }
}

/// # Safety
/// `text` must be zero-terminated.
unsafe fn is(text: *const u8, name: &[u8]) -> bool {
    let mut at = 0;
    for byte in name {
        // SAFETY: a terminator differs from every byte of a name.
        if unsafe { *text.add(at) } != *byte {
            return false;
        }
        at += 1;
    }
    // SAFETY: all bytes before were no terminators.
    unsafe { *text.add(at) == 0 }
}
