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
    signal_chain,
    state::{self, Pages, Shared},
};
use core::{
    mem::offset_of,
    ptr::null_mut,
    sync::atomic::{AtomicU32, Ordering},
};
use inprocess_base::{environment::Environment, maps, sys};
use inprocess_layout::{Header, MAGIC, MAPS_BYTES, Region, VERSION};

/// What a C library calls before `main`. glibc passes `main`'s arguments; others none.
pub type Constructor = unsafe extern "C" fn(i32, *mut *mut u8, *mut *mut u8);

/// What a form of the runtime is beyond crash capture.
pub struct Form {
    /// What it uses of the region: the exact size of its file.
    pub size: usize,
    /// Pages of its own that a forked child is to find zeroed.
    pub own_pages: Option<Pages>,
    /// Pages of its own that are to be the region's.
    pub shared: Option<Shared>,
    /// Gets ready: called once, on the only thread there is, with the active region, when
    /// our handlers are installed and recording is still off.
    pub prepare: unsafe fn(*mut Region),
}

/// A start that is under way, in a process whose environment we know.
pub struct Start {
    pub environment: Environment,
    began: u64,
}

impl Start {
    /// `None` if these are no arguments of `main`.
    pub fn of(argc: i32, argv: *mut *mut u8, envp: *mut *mut u8) -> Option<Start> {
        are_arguments_of_main(argc, argv, envp).then(|| Start {
            environment: Environment(envp),
            began: sys::thread_cpu_ns(),
        })
    }

    /// Starts recording, if the environment says where to and that is the agent's.
    ///
    /// # Safety
    /// Called by a constructor, on the only thread there is; the form's pages must be its
    /// own, whole, and hold zeros until recording starts.
    pub unsafe fn record(self, form: Form) {
        let Some(activation) = self.environment.take_activation() else {
            return;
        };
        let region = claim(activation.fd, activation.nonce, form.size);
        if region.is_null() {
            return;
        }
        // SAFETY: the caller's promise.
        let recording =
            unsafe { state::start_recording(region, activation.fd, form.own_pages, form.shared) };
        sys::close(activation.fd);
        if !recording {
            // SAFETY: the region is mapped, and given up here.
            unsafe {
                AtomicU32::from_ptr(&raw mut (*region).header.pid).store(0, Ordering::Release);
                close_socket((*region).header.socket);
                sys::unmap(region.cast(), form.size);
            }
            return;
        }
        // SAFETY: the region is mapped for the rest of the process's life and this
        // process alone writes to it.
        unsafe {
            let copied = maps::copy_own_maps((&raw mut (*region).maps).cast(), MAPS_BYTES);
            (*region).header.maps_length = copied.length;
            (*region).header.maps_truncated = copied.truncated;
            signal_chain::install(region, self.environment.0 as u64);
            (form.prepare)(region);
            close_socket((*region).header.socket);
            (*region).header.activation_ns = sys::thread_cpu_ns().wrapping_sub(self.began);
            (*region).control.activated_at = sys::tsc();
            let enabled = AtomicU32::from_ptr(&raw mut (*region).control.enabled);
            enabled.store(1, Ordering::Release);
        }
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

/// Maps the region and makes it this process's own; null if it is not ours to use.
/// Then the descriptor is closed if it is the agent's, and left alone otherwise.
fn claim(fd: i32, nonce: u64, size: usize) -> *mut Region {
    let seals = sys::fcntl(fd, sys::F_GET_SEALS, 0);
    if seals < 0 || seals & sys::F_SEAL_SHRINK == 0 || sys::file_size(fd) != size as isize {
        return null_mut();
    }
    let at = sys::map(size, sys::PROT_READ_WRITE, sys::MAP_SHARED, fd);
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
            && (*header).region_size == size as u64;
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
        sys::unmap(at, size);
    }
    null_mut()
}

/// A field of the header, read from the file.
fn field(fd: i32, offset: usize, size: usize) -> Option<u64> {
    let mut value = 0u64;
    let at = offset_of!(Region, header) + offset;
    // SAFETY: no field is longer than the word.
    let got = unsafe { sys::read_at(fd, (&raw mut value).cast(), size, at) };
    (got == size as isize).then_some(value)
}
