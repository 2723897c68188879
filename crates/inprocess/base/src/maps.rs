//! A copy of `/proc/self/maps`, straight into shared memory.

use crate::sys;

/// How much was copied, and whether there was more.
pub struct Copied {
    pub length: u32,
    pub truncated: u32,
}

/// # Safety
/// `into` must be writable for `capacity` bytes.
pub unsafe fn copy_own_maps(into: *mut u8, capacity: usize) -> Copied {
    let fd = sys::open(c"/proc/self/maps");
    let mut length = 0;
    let mut truncated = 0;
    if fd >= 0 {
        loop {
            if length == capacity {
                let mut one_more = 0u8;
                // SAFETY: one byte of ours is written.
                truncated = (unsafe { sys::read(fd, &raw mut one_more, 1) } > 0) as u32;
                break;
            }
            // SAFETY: `length` is less than the capacity, which is the caller's promise.
            let got = unsafe { sys::read(fd, into.add(length), capacity - length) };
            if got == sys::EINTR {
                continue;
            }
            if got <= 0 {
                break;
            }
            length += got as usize;
        }
        sys::close(fd);
    }
    Copied {
        length: length as u32,
        truncated,
    }
}
