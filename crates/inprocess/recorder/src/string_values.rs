//! Short strings that the program points to.
//!
//! The bytes are read by the kernel (`process_vm_readv` of ourselves), which
//! answers that a page is not there where reading it would have been a crash of
//! our making. The program's memory is not written, no lock is taken, and a page
//! is asked for only if the string gets there: the first part ends with the page
//! that it begins in. Another thread may change the string meanwhile; what is
//! kept is what was there at some moment of the reading.
//!
//! A program with a seccomp filter of its own gets no system call from us, so its
//! strings stay unread.

use crate::recorder::{self, Said};
use inprocess_base::sys;
use inprocess_capture::state;
use inprocess_layout::{KIND_TEXT, SIZE_FLAG, TEXT_BYTES, ThreadSlot};

const PAGE: u64 = 4096;
/// What a reading costs at most, in ticks of the counter: a system call.
const COST: u64 = 2_500;

/// Records the string at `pointer`, if there is one.
///
/// # Safety
/// `slot` must be the calling thread's own.
pub unsafe fn record(slot: *mut ThreadSlot, site: u32, pointer: u64, now: u64) {
    if pointer < PAGE || state::sandboxed() {
        return;
    }
    let mut words = [0_u64; TEXT_BYTES / 8];
    let bytes = (&raw mut words).cast::<u8>();
    let in_page = (PAGE - pointer % PAGE) as usize;
    let first = if in_page < TEXT_BYTES {
        in_page
    } else {
        TEXT_BYTES
    };
    // SAFETY: `words` has room for all that is copied; only this thread writes the slot.
    unsafe {
        if sys::copy_without_faulting(bytes, pointer, first) != first as isize {
            return;
        }
        let mut length = end(bytes, 0, first);
        if length == first && first < TEXT_BYTES {
            let rest = TEXT_BYTES - first;
            let next = pointer + first as u64;
            if sys::copy_without_faulting(bytes.add(first), next, rest) == rest as isize {
                length = end(bytes, first, TEXT_BYTES);
            }
        }
        // What follows the end is not the string's.
        let mut at = length;
        while at < TEXT_BYTES {
            bytes.add(at).write_volatile(0);
            at += 1;
        }
        let cut = if length == TEXT_BYTES { SIZE_FLAG } else { 0 };
        let said = Said {
            kind: KIND_TEXT,
            site,
            size: length as u16 | cut,
            before: now,
            after: words[0],
            address: words[1],
            value: words[2],
        };
        recorder::write(slot, said, COST);
    }
}

/// Where the first zero is from `from` on, or `to`.
///
/// # Safety
/// The bytes up to `to` must be there.
unsafe fn end(bytes: *const u8, from: usize, to: usize) -> usize {
    let mut at = from;
    // SAFETY: as the caller promises.
    while at < to && unsafe { bytes.add(at).read_volatile() } != 0 {
        at += 1;
    }
    at
}
