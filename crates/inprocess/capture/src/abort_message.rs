//! What a program that aborts has said about why: the C library's message of a
//! failed assertion or a broken heap, and the C++ exception in flight.
//!
//! Nothing of the program is called. The C library leaves its message where
//! debuggers look for it, in `__abort_msg`, and that is found the way a debugger
//! finds it: through the dynamic symbols of the mapped `libc.so.6`. An exception
//! is found on the stack, by the class that the C++ ABI writes into every one
//! ("GNUCC++", "CLNGC++"); of its type the name is read, and of those derived
//! from `std::runtime_error` and `std::logic_error` also the text, which both
//! libraries keep as a pointer behind the virtual table.
//!
//! Everything is read through the kernel: a broken program has broken pointers,
//! and here they only end the search. It runs after stack and mappings have been
//! captured, so whatever it meets costs no more than the words.
//!
//! Deliberately absent: calling `what()`, which is the program's code and may do
//! anything; and messages that programs print themselves before they abort.

use inprocess_base::text::{copy_text, half_word, is_text, word};
use inprocess_layout::{Crash, MAPS_BYTES, STACK_BYTES, TYPE_NAME_BYTES, WORDS_BYTES};

/// How far up the stack an exception is looked for. Between `abort` and the
/// thrower lie a few frames of the C and C++ libraries.
const SEARCHED: usize = 16 * 1024;
/// `_Unwind_Exception::exception_class`, read as a number; the lowest byte is 1
/// for one that `std::exception_ptr` shares.
const GNU: u64 = u64::from_be_bytes(*b"GNUCC++\0");
const CLANG: u64 = u64::from_be_bytes(*b"CLNGC++\0");
/// From the unwind header back to the exception's type, the same in libstdc++
/// and libc++abi; to where its memory begins; and forward to the thrown object.
const TO_TYPE: u64 = 80;
const TO_START: u64 = 96;
const TO_OBJECT: u64 = 32;
/// More are no count of references.
const MOST_REFERENCES: u64 = 4096;
/// Deeper hierarchies have no text for us.
const MOST_BASES: usize = 16;

/// Takes down what was said.
///
/// # Safety
/// `crash` must be ours to write, with its stack and mappings captured.
pub unsafe fn take_down(crash: *mut Crash) {
    // SAFETY: the areas belong to `crash` and have the sizes given.
    unsafe {
        if let Some(message) = abort_message(crash) {
            let into = (&raw mut (*crash).message).cast();
            (*crash).message_length = copy_text(into, WORDS_BYTES, message);
        }
        if let Some((kind, object)) = exception(crash) {
            let into = (&raw mut (*crash).exception_type).cast();
            // The name of a type that must be compared by address has a star.
            let name = word(kind.wrapping_add(8)).unwrap_or(0);
            let starred = half_word(name).is_some_and(|first| first & 0xff == b'*' as u32);
            (*crash).exception_type_length =
                copy_text(into, TYPE_NAME_BYTES, name + starred as u64);
            if let Some(text) = text_of(kind, object) {
                let into = (&raw mut (*crash).exception_text).cast();
                (*crash).exception_text_length = copy_text(into, WORDS_BYTES, text);
            }
        }
    }
}

/// Where glibc keeps its message, if there is one: behind its size.
///
/// # Safety
/// As [`take_down`].
unsafe fn abort_message(crash: *const Crash) -> Option<u64> {
    // SAFETY: the caller's promise.
    let base = unsafe { base_of_the_c_library(crash) }?;
    let message = word(base.wrapping_add(symbol(base, b"__abort_msg")?))?;
    (message != 0).then_some(message.wrapping_add(4))
}

/// The address at which the first page of `libc.so.6` is mapped.
///
/// # Safety
/// As [`take_down`].
unsafe fn base_of_the_c_library(crash: *const Crash) -> Option<u64> {
    const NAME: &[u8] = b"/libc.so.6";
    // SAFETY: the caller's promise; positions stay below the length.
    unsafe {
        let text = (&raw const (*crash).maps).cast::<u8>();
        // Other threads of a program gone wild may write here meanwhile.
        let length = ((*crash).maps_length as usize).min(MAPS_BYTES);
        let mut line = 0;
        let mut at = 0;
        while at < length {
            if *text.add(at) == b'\n' {
                let mut same = 0;
                while same < NAME.len()
                    && line + same < at
                    && *text.add(at - 1 - same) == *NAME.as_ptr().add(NAME.len() - 1 - same)
                {
                    same += 1;
                }
                if same == NAME.len() {
                    // The lowest mapping of a file comes first.
                    return hexadecimal(text.add(line));
                }
                line = at + 1;
            }
            at += 1;
        }
    }
    None
}

/// # Safety
/// `text` must hold something that is no digit.
unsafe fn hexadecimal(mut text: *const u8) -> Option<u64> {
    let mut value = 0u64;
    loop {
        // SAFETY: the loop ends at the first byte that is no digit.
        let digit = match unsafe { *text } {
            digit @ b'0'..=b'9' => digit - b'0',
            digit @ b'a'..=b'f' => digit - b'a' + 10,
            _ => return (value != 0).then_some(value),
        };
        value = value << 4 | digit as u64;
        text = text.wrapping_add(1);
    }
}

/// The value of a dynamic symbol of the ELF file mapped at `base`, through its
/// GNU hash table.
fn symbol(base: u64, name: &[u8]) -> Option<u64> {
    const PT_DYNAMIC: u32 = 2;
    const MOST_ENTRIES: u64 = 256;
    let table = base.wrapping_add(word(base.wrapping_add(0x20))?);
    let count = (half_word(base.wrapping_add(0x38))? & 0xffff) as u64;
    let mut dynamic = 0;
    let mut header = 0;
    while header < count && header < MOST_ENTRIES {
        let at = table.wrapping_add(header * 56);
        if half_word(at)? == PT_DYNAMIC {
            dynamic = base.wrapping_add(word(at.wrapping_add(16))?);
        }
        header += 1;
    }
    if dynamic == 0 {
        return None;
    }
    let (mut strings, mut symbols, mut hashes) = (0, 0, 0);
    let mut entry = 0;
    while entry < MOST_ENTRIES {
        let at = dynamic.wrapping_add(entry * 16);
        let value = word(at.wrapping_add(8))?;
        // The loader has made addresses of what the file has as offsets.
        let address = if value < base {
            base.wrapping_add(value)
        } else {
            value
        };
        match word(at)? {
            0 => break,
            5 => strings = address,
            6 => symbols = address,
            0x6fff_fef5 => hashes = address,
            _ => {}
        }
        entry += 1;
    }
    if strings == 0 || symbols == 0 || hashes == 0 {
        return None;
    }
    let mut hash = 5381u32;
    let mut at = 0;
    while at < name.len() {
        // SAFETY: `at` is less than the length.
        let byte = unsafe { *name.as_ptr().add(at) };
        hash = hash.wrapping_mul(33).wrapping_add(byte as u32);
        at += 1;
    }
    let buckets = half_word(hashes)?;
    let first = half_word(hashes.wrapping_add(4))?;
    let filters = half_word(hashes.wrapping_add(8))? as u64;
    if buckets == 0 {
        return None;
    }
    let table = hashes.wrapping_add(16 + filters * 8);
    let mut index = half_word(table.wrapping_add((hash % buckets) as u64 * 4))?;
    let chains = table.wrapping_add(buckets as u64 * 4);
    let mut left = MOST_ENTRIES;
    while index >= first && left > 0 {
        let kept = half_word(chains.wrapping_add((index - first) as u64 * 4))?;
        if kept | 1 == hash | 1 {
            let entry = symbols.wrapping_add(index as u64 * 24);
            if is_text(strings.wrapping_add(half_word(entry)? as u64), name) {
                return word(entry.wrapping_add(8));
            }
        }
        if kept & 1 != 0 {
            return None;
        }
        index = index.wrapping_add(1);
        left -= 1;
    }
    None
}

/// The exception in flight: its type and the thrown object.
///
/// # Safety
/// As [`take_down`].
unsafe fn exception(crash: *const Crash) -> Option<(u64, u64)> {
    // SAFETY: the caller's promise; positions stay below the length.
    unsafe {
        let stack = (&raw const (*crash).stack).cast::<u8>();
        let length = ((*crash).stack_length as usize).min(STACK_BYTES);
        let start = (*crash).stack_start;
        let mut at = ((8 - start % 8) % 8) as usize;
        while at + 8 <= length && at < SEARCHED {
            let candidate = stack.add(at).cast::<u64>().read_unaligned();
            at += 8;
            let own_stack = candidate.wrapping_sub(start) < length as u64;
            if candidate % 8 != 0 || candidate < 1 << 16 || candidate >> 47 != 0 || own_stack {
                continue;
            }
            // A pointer to the whole, to the unwind header, or to the object.
            let headers = [
                candidate,
                candidate.wrapping_add(TO_START),
                candidate.wrapping_sub(TO_OBJECT),
            ];
            let mut which = 0;
            while which < 3 {
                if let Some(found) = thrown(*headers.as_ptr().add(which)) {
                    return Some(found);
                }
                which += 1;
            }
        }
    }
    None
}

/// Type and object behind an unwind header, if it is one of an exception that
/// has not been released.
fn thrown(header: u64) -> Option<(u64, u64)> {
    let class = word(header)?;
    if class & !1 != GNU && class & !1 != CLANG {
        return None;
    }
    let kind = word(header.wrapping_sub(TO_TYPE))?;
    // A shared one names the object of the first, whose header stands before it.
    let (kind, object) = match class & 1 {
        0 => (kind, header.wrapping_add(TO_OBJECT)),
        _ => (word(kind.wrapping_sub(TO_OBJECT + TO_TYPE))?, kind),
    };
    // The memory of one that is over keeps its class; but it begins with a count
    // of references and padding, and whoever frees memory writes there.
    let start = object.wrapping_sub(TO_OBJECT + TO_START);
    let (first, second) = (word(start)?, word(start.wrapping_add(8))?);
    let references = first.wrapping_add(second);
    if (first != 0 && second != 0) || references == 0 || references > MOST_REFERENCES {
        return None;
    }
    // A type has a name.
    let name = word(kind.wrapping_add(8))?;
    half_word(name)?;
    Some((kind, object))
}

/// The text of an object whose class is one of the two that keep one, or has it
/// as its only base's base.
fn text_of(mut kind: u64, object: u64) -> Option<u64> {
    let mut base = 0;
    while base < MOST_BASES {
        let name = word(kind.wrapping_add(8))?;
        if is_text(name, b"St13runtime_error") || is_text(name, b"St11logic_error") {
            return word(object.wrapping_add(8));
        }
        // `__si_class_type_info`: virtual table, name, base. Of another kind of
        // type this is no type, and its name no text.
        kind = word(kind.wrapping_add(16))?;
        base += 1;
    }
    None
}
