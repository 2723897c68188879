//! The constructor: recording starts here, or never.
//!
//! It runs before `main` and before any other constructor, of the program and of
//! its libraries: these may call back into the program, crash, and start children
//! that would inherit what activates us. The preloaded object asks the loader to be
//! the first (`DF_1_INITFIRST`); the runtime of a tracked build would only be the
//! first of the program's own (priority 1), which come last, so the preloaded object
//! starts it. Where nothing is preloaded, it starts by itself.
//!
//! It trusts nothing it finds in the environment: the descriptor must be a memfd
//! sealed against shrinking, of exactly the right size, with the right magic, version
//! and nonce, and not yet claimed.

use crate::{
    crash,
    environment::Environment,
    layout::{Header, MAGIC, MAPS_BYTES, Region, START_MARK, VERSION},
    maps, served, state, sys,
};
#[cfg(not(failsketch_preload))]
use core::arch::global_asm;
use core::{
    mem::offset_of,
    ptr::null_mut,
    sync::atomic::{AtomicU32, Ordering},
};

/// What this form of the runtime uses of the region.
#[cfg(failsketch_preload)]
const SIZE: usize = crate::layout::CAPTURE_SIZE;
#[cfg(not(failsketch_preload))]
const SIZE: usize = crate::layout::REGION_SIZE;

type Constructor = unsafe extern "C" fn(i32, *mut *mut u8, *mut *mut u8);

/// glibc calls this with `main`'s arguments; other C libraries with none.
extern "C" fn start(argc: i32, argv: *mut *mut u8, envp: *mut *mut u8) {
    if !are_arguments_of_main(argc, argv, envp) {
        return;
    }
    let began = sys::thread_cpu_ns();
    let environment = Environment(envp);
    #[cfg(failsketch_preload)]
    {
        let Some(activation) = environment.activation() else {
            return;
        };
        environment.restore_preload();
        if let Some(at) = offer(activation.fd, activation.nonce) {
            if let Some(constructor) = of_the_program(at) {
                // SAFETY: the runtime's, with what ours was given.
                unsafe { constructor(argc, argv, envp) };
            }
            return;
        }
    }
    let Some(activation) = environment.take_activation() else {
        return;
    };
    let region = claim(activation.fd, activation.nonce);
    if region.is_null() {
        return;
    }
    // SAFETY: constructors run on the only thread there is.
    let recording = unsafe { state::start_recording(region, activation.fd) };
    sys::close(activation.fd);
    if !recording {
        // SAFETY: the region is mapped, and given up here.
        unsafe {
            AtomicU32::from_ptr(&raw mut (*region).header.pid).store(0, Ordering::Release);
            close_socket((*region).header.socket);
            sys::unmap(region.cast(), SIZE);
        }
        return;
    }
    // SAFETY: the region is mapped for the rest of the process's life and this
    // process alone writes to it.
    unsafe {
        let copied = maps::copy_own_maps((&raw mut (*region).maps).cast(), MAPS_BYTES);
        (*region).header.maps_length = copied.length;
        (*region).header.maps_truncated = copied.truncated;
        crash::install(region, envp as u64);
        served::join(region);
        #[cfg(not(failsketch_preload))]
        {
            crate::threads::learn_tid_offset(region);
            crate::governor::calibrate(region);
            crate::watch::open(region);
        }
        close_socket((*region).header.socket);
        (*region).header.activation_ns = sys::thread_cpu_ns().wrapping_sub(began);
        (*region).control.activated_at = sys::tsc();
        let enabled = AtomicU32::from_ptr(&raw mut (*region).control.enabled);
        enabled.store(1, Ordering::Release);
    }
}

/// Whether these are arguments, and not what happened to be in the registers. The
/// kernel puts the environment right after the arguments, and their number right
/// before; a library's constructor may have moved the environment by now.
fn are_arguments_of_main(argc: i32, argv: *mut *mut u8, envp: *mut *mut u8) -> bool {
    if argc < 1 || argv.is_null() || envp.is_null() {
        return false;
    }
    if envp == argv.wrapping_add(argc as usize + 1) {
        return true;
    }
    let mut before = 0u64;
    // SAFETY: `before` is eight bytes long.
    let copied = unsafe {
        let at = argv.wrapping_sub(1) as u64;
        sys::copy_without_faulting((&raw mut before).cast(), at, 8)
    };
    copied == 8 && before == argc as u64
}

fn close_socket(socket: i32) {
    if socket >= 0 {
        sys::close(socket);
    }
}

// The constructor of a tracked build, behind the mark that it is found by.
#[cfg(not(failsketch_preload))]
global_asm!(
    ".pushsection .text.__failsketch_constructor,\"ax\",@progbits",
    ".p2align 4",
    ".quad {mark}, {rest}",
    ".globl __failsketch_constructor",
    ".type __failsketch_constructor,@function",
    "__failsketch_constructor:",
    "jmp {start}",
    ".size __failsketch_constructor, . - __failsketch_constructor",
    ".popsection",
    mark = const START_MARK[0],
    rest = const START_MARK[1],
    start = sym start,
);

#[cfg(not(failsketch_preload))]
unsafe extern "C" {
    fn __failsketch_constructor(argc: i32, argv: *mut *mut u8, envp: *mut *mut u8);
}

#[cfg(failsketch_preload)]
use start as __failsketch_constructor;

// Named only so that no symbol of ours can clash with the program's.
#[used]
#[allow(non_upper_case_globals)]
#[cfg_attr(not(failsketch_preload), unsafe(no_mangle))]
#[unsafe(link_section = ".init_array.00001")]
static __failsketch_constructor_entry: Constructor = __failsketch_constructor;

/// Maps the region and makes it this process's own; null if it is not ours to use.
/// Then the descriptor is closed if it is the agent's, and left alone otherwise.
fn claim(fd: i32, nonce: u64) -> *mut Region {
    let seals = sys::fcntl(fd, sys::F_GET_SEALS, 0);
    if seals < 0 || seals & sys::F_SEAL_SHRINK == 0 || sys::file_size(fd) != SIZE as isize {
        return null_mut();
    }
    let at = sys::map(SIZE, sys::PROT_READ_WRITE, sys::MAP_SHARED, fd);
    if at.is_null() {
        // Without the mapping the program gets its descriptors back all the same.
        if field(fd, offset_of!(Header, magic), 8) == Some(MAGIC)
            && field(fd, offset_of!(Header, nonce), 8) == Some(nonce)
        {
            if let Some(socket) = field(fd, offset_of!(Header, socket), 4) {
                close_socket(socket as i32);
            }
            sys::close(fd);
        }
        return null_mut();
    }
    let region = at.cast::<Region>();
    // SAFETY: the mapping has the region's size and cannot shrink.
    unsafe {
        let header = &raw mut (*region).header;
        let ours = (*header).magic == MAGIC
            && (*header).version == VERSION
            && (*header).nonce == nonce
            && (*header).region_size == SIZE as u64;
        if ours {
            let pid = AtomicU32::from_ptr(&raw mut (*header).pid);
            if pid
                .compare_exchange(0, sys::getpid(), Ordering::AcqRel, Ordering::Relaxed)
                .is_ok()
            {
                return region;
            }
            sys::close(fd);
        }
        sys::unmap(at, SIZE);
    }
    null_mut()
}

/// If the program is a tracked build with a runtime of its own: where that one
/// starts. It will find our table.
#[cfg(failsketch_preload)]
fn offer(fd: i32, nonce: u64) -> Option<u64> {
    const PAGE: usize = 4096;
    const { assert!(offset_of!(Region, header) == 0 && size_of::<Header>() <= PAGE) };
    let seals = sys::fcntl(fd, sys::F_GET_SEALS, 0);
    if seals < 0 || seals & sys::F_SEAL_SHRINK == 0 || sys::file_size(fd) != crate::layout::REGION_SIZE as isize {
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
            (*header).interposed = &raw mut crate::interpose::TABLE as u64;
        }
        let start = (*header).start;
        sys::unmap(at, PAGE);
        ours.then_some(start)
    }
}

/// The constructor of the program's own runtime, if it is where it is said to be.
#[cfg(failsketch_preload)]
fn of_the_program(start: u64) -> Option<Constructor> {
    const MARK: usize = size_of_val(&START_MARK);
    let address = crate::next_symbol::program_bias().wrapping_add(start);
    let mut before = [0; 2];
    // SAFETY: as many bytes as the mark has are written; what stands behind the mark
    // is the constructor.
    unsafe {
        let mark = address.wrapping_sub(MARK as u64);
        let got = sys::copy_without_faulting((&raw mut before).cast(), mark, MARK);
        let there = start != 0 && got == MARK as isize && before == START_MARK;
        there.then(|| core::mem::transmute::<usize, Constructor>(address as usize))
    }
}

/// A field of the header, read from the file.
fn field(fd: i32, offset: usize, size: usize) -> Option<u64> {
    let mut value = 0u64;
    let at = offset_of!(Region, header) + offset;
    let got = sys::read_at(fd, (&raw mut value).cast(), size, at);
    (got == size as isize).then_some(value)
}
