//! Words and texts of the program, read through the kernel.
//!
//! A broken program has broken pointers. The kernel (`process_vm_readv` of ourselves)
//! answers that a page is not there where reading it would have been a crash of our
//! making. The program's memory is not written and no lock is taken. Another thread may
//! change what is read meanwhile; the answer is what was there at some moment.

use crate::sys;

/// Eight bytes of the program, or nothing.
pub fn word(at: u64) -> Option<u64> {
    let mut value = 0u64;
    // SAFETY: eight bytes of ours are written.
    let got = unsafe { sys::copy_without_faulting((&raw mut value).cast(), at, 8) };
    (got == 8).then_some(value)
}

pub fn half_word(at: u64) -> Option<u32> {
    let mut value = 0u32;
    // SAFETY: four bytes of ours are written.
    let got = unsafe { sys::copy_without_faulting((&raw mut value).cast(), at, 4) };
    (got == 4).then_some(value)
}

/// Copies a text up to its terminator or `capacity`; its length.
///
/// # Safety
/// `into` must be writable for `capacity` bytes.
pub unsafe fn copy_text(into: *mut u8, capacity: usize, from: u64) -> u32 {
    const PIECE: usize = 64;
    let mut length = 0;
    while length < capacity {
        let at = from.wrapping_add(length as u64);
        // Not across the end of a piece, so that a text at the end of a mapping
        // is read to its end.
        let to_boundary = PIECE - (at % PIECE as u64) as usize;
        let room = capacity - length;
        let want = if room < to_boundary {
            room
        } else {
            to_boundary
        };
        // SAFETY: `length + want` is at most the capacity.
        let got = unsafe { sys::copy_without_faulting(into.add(length), at, want) };
        if got != want as isize {
            break;
        }
        let mut copied = 0;
        while copied < want {
            // SAFETY: these bytes were just written.
            if unsafe { into.add(length).read() } == 0 {
                return length as u32;
            }
            length += 1;
            copied += 1;
        }
    }
    length as u32
}

/// Whether a text of the program is this one.
pub fn is_text(at: u64, text: &[u8]) -> bool {
    let mut bytes = [0u8; 32];
    // SAFETY: at most as many bytes as the array has.
    let length = unsafe { copy_text(bytes.as_mut_ptr(), 32, at) } as usize;
    if length != text.len() {
        return false;
    }
    let mut same = 0;
    while same < length && same < 32 {
        // SAFETY: `same` is less than both lengths.
        if unsafe { *bytes.as_ptr().add(same) != *text.as_ptr().add(same) } {
            return false;
        }
        same += 1;
    }
    true
}
