//! The constructor of the preloaded object: the first code that runs in a process.
//!
//! In a tracked build it hands the start over to the program's own runtime, and tells that
//! one where our table is. In any other program it captures crashes itself.

use crate::{allocator, interposed_functions::TABLE};
use core::mem::{offset_of, transmute};
use inprocess_base::{next_symbol, sys};
use inprocess_capture::{
    activate::{Constructor, Form, Start},
    signal_chain,
};
use inprocess_layout::{CAPTURE_SIZE, Header, MAGIC, REGION_SIZE, Region, START_MARK, VERSION};

#[used]
#[unsafe(link_section = ".init_array.00001")]
static CONSTRUCTOR: Constructor = start;

extern "C" fn start(argc: i32, argv: *mut *mut u8, envp: *mut *mut u8) {
    let Some(start) = Start::of(argc, argv, envp) else {
        return;
    };
    let Some(activation) = start.environment.activation() else {
        return;
    };
    start.environment.restore_preload();
    if let Some(at) = offer(activation.fd, activation.nonce) {
        if let Some(constructor) = of_the_program(at) {
            // SAFETY: the runtime's, with what ours was given.
            unsafe { constructor(argc, argv, envp) };
        }
        return;
    }
    let form = Form {
        size: CAPTURE_SIZE,
        own_pages: None,
        shared: None,
        prepare,
    };
    // SAFETY: constructors run on the only thread there is, and this one once.
    unsafe { start.record(form) };
}

/// # Safety
/// As [`Form::prepare`].
unsafe fn prepare(_: *mut Region) {
    // SAFETY: the table is our own.
    unsafe { signal_chain::join(&raw mut TABLE) };
}

/// If the program is a tracked build with a runtime of its own: where that one
/// starts. It will find our table.
fn offer(fd: i32, nonce: u64) -> Option<u64> {
    const PAGE: usize = 4096;
    const { assert!(offset_of!(Region, header) == 0 && size_of::<Header>() <= PAGE) };
    let seals = sys::fcntl(fd, sys::F_GET_SEALS, 0);
    if seals < 0 || seals & sys::F_SEAL_SHRINK == 0 || sys::file_size(fd) != REGION_SIZE as isize {
        return None;
    }
    let at = sys::map(PAGE, sys::PROT_READ_WRITE, sys::MAP_SHARED, fd);
    if at.is_null() {
        return None;
    }
    let header = at.cast::<Header>();
    // SAFETY: the mapping has the header's size and cannot shrink.
    unsafe {
        let ours = (*header).magic == MAGIC
            && (*header).version == VERSION
            && (*header).nonce == nonce
            && (*header).tracked != 0;
        if ours {
            TABLE.lifetimes = allocator::who_allocates();
            (*header).interposed = &raw mut TABLE as u64;
        }
        let start = (*header).start;
        sys::unmap(at, PAGE);
        ours.then_some(start)
    }
}

/// The constructor of the program's own runtime, if it is at the given address.
fn of_the_program(start: u64) -> Option<Constructor> {
    const MARK: usize = size_of_val(&START_MARK);
    let address = next_symbol::program_bias().wrapping_add(start);
    let mut before = [0; 2];
    // SAFETY: as many bytes as the mark has are written; what stands behind the mark
    // is the constructor.
    unsafe {
        let mark = address.wrapping_sub(MARK as u64);
        let got = sys::copy_without_faulting((&raw mut before).cast(), mark, MARK);
        let there = start != 0 && got == MARK as isize && before == START_MARK;
        there.then(|| transmute::<usize, Constructor>(address as usize))
    }
}
