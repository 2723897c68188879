//! The constructor: recording starts here, or never.
//!
//! It runs before `main` and, in a tracked build, before the program's own
//! constructors (priority 1). It trusts nothing it finds in the environment: the
//! descriptor must be a memfd sealed against shrinking, of exactly the right
//! size, with the right magic, version and nonce, and not yet claimed.

use crate::{
    crash,
    environment::Environment,
    layout::{MAGIC, MAPS_BYTES, REGION_SIZE, Region, VERSION},
    maps, state, sys,
};
use core::{
    ptr::null_mut,
    sync::atomic::{AtomicU32, Ordering},
};

/// The C library calls this with `main`'s arguments. Named only so that no symbol
/// of ours can clash with the program's.
#[cfg_attr(not(failsketch_preload), unsafe(no_mangle))]
extern "C" fn __failsketch_constructor(_argc: i32, _argv: *mut *mut u8, envp: *mut *mut u8) {
    let environment = Environment(envp);
    let Some(activation) = environment.take_activation() else {
        return;
    };
    #[cfg(failsketch_preload)]
    environment.restore_preload();
    let region = claim(activation.fd, activation.nonce);
    if region.is_null() || !state::start_recording(region) {
        return;
    }
    // SAFETY: the region is mapped for the rest of the process's life and this
    // process alone writes to it.
    unsafe {
        let copied = maps::copy_own_maps((&raw mut (*region).maps).cast(), MAPS_BYTES);
        (*region).header.maps_length = copied.length;
        (*region).header.maps_truncated = copied.truncated;
        crash::install(region);
        #[cfg(not(failsketch_preload))]
        crate::watch::open(region);
        let socket = (*region).header.socket;
        if socket >= 0 {
            sys::close(socket);
        }
    }
}

#[used]
#[allow(non_upper_case_globals)]
#[cfg_attr(not(failsketch_preload), unsafe(no_mangle))]
#[unsafe(link_section = ".init_array.00001")]
static __failsketch_constructor_entry: extern "C" fn(i32, *mut *mut u8, *mut *mut u8) =
    __failsketch_constructor;

/// Maps the region and makes it this process's own; null if it is not ours to use.
/// The descriptor is closed only if it is the agent's.
fn claim(fd: i32, nonce: u64) -> *mut Region {
    let seals = sys::fcntl(fd, sys::F_GET_SEALS, 0);
    if seals < 0 || seals & sys::F_SEAL_SHRINK == 0 || sys::file_size(fd) != REGION_SIZE as isize {
        return null_mut();
    }
    let at = sys::map(REGION_SIZE, sys::PROT_READ_WRITE, sys::MAP_SHARED, fd);
    if at.is_null() {
        return null_mut();
    }
    let region = at.cast::<Region>();
    // SAFETY: the mapping has the region's size and cannot shrink.
    unsafe {
        let header = &raw mut (*region).header;
        let ours = (*header).magic == MAGIC
            && (*header).version == VERSION
            && (*header).nonce == nonce
            && (*header).region_size == REGION_SIZE as u64;
        if ours {
            sys::close(fd);
            let pid = AtomicU32::from_ptr(&raw mut (*header).pid);
            if pid
                .compare_exchange(0, sys::getpid(), Ordering::AcqRel, Ordering::Relaxed)
                .is_ok()
            {
                return region;
            }
        }
        sys::unmap(at, REGION_SIZE);
    }
    null_mut()
}
