//! Every perf system call of the agent, in one place; but for those of Intel PT,
//! which have a seam of their own (`intel_pt/kernel.rs`).
//!
//! Opening the events of a supervised program is not here: the program's own
//! runtime does it, because only a process may watch itself without privileges
//! under every ptrace policy.

use perf_event_open_sys as perf;
use std::{
    io,
    os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd},
    sync::atomic::{AtomicU64, Ordering},
};

const PAGE: usize = 4096;
// Offsets in struct perf_event_mmap_page.
const DATA_HEAD: usize = 1024;
const DATA_TAIL: usize = 1032;

fn check(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(result)
    }
}

/// A mapped ring of one event, and of those redirected to it.
#[derive(Debug)]
pub struct Ring {
    at: *mut u8,
    pages: usize,
}

// SAFETY: the mapping belongs to this value alone and the kernel synchronises
// through the head and tail words.
unsafe impl Send for Ring {}

impl Ring {
    /// Maps a ring of `pages` data pages, a power of two.
    pub fn map(event: BorrowedFd<'_>, pages: usize) -> io::Result<Ring> {
        // SAFETY: a fresh shared mapping at an address of the kernel's choice.
        let at = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                (pages + 1) * PAGE,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                event.as_raw_fd(),
                0,
            )
        };
        if at == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(Ring {
            at: at.cast(),
            pages,
        })
    }

    /// Bytes that are mapped, the first page included.
    pub fn length(&self) -> usize {
        (self.pages + 1) * PAGE
    }

    /// The page before the records, in which the kernel describes them.
    pub fn first_page(&self) -> *mut perf::bindings::perf_event_mmap_page {
        self.at.cast()
    }

    /// A word of the first page.
    pub fn word(&self, offset: usize) -> &AtomicU64 {
        assert!(offset < PAGE && offset.is_multiple_of(8));
        // SAFETY: the word lies in the first page, aligned; the kernel writes
        // its words atomically.
        unsafe { AtomicU64::from_ptr(self.at.add(offset).cast()) }
    }

    /// Appends what is new to `into` and frees its room in the ring.
    pub fn drain(&self, into: &mut Vec<u8>) {
        let size = (self.pages * PAGE) as u64;
        let head = self.word(DATA_HEAD).load(Ordering::Acquire);
        let tail = self.word(DATA_TAIL).load(Ordering::Relaxed);
        // There is no more in it than it holds, whatever descriptor we were sent.
        let mut tail = tail.max(head.saturating_sub(size));
        while tail < head {
            let from = tail % size;
            let length = (head - tail).min(size - from);
            // SAFETY: `from + length` does not exceed the data pages, and the
            // kernel does not write between tail and head.
            let piece = unsafe {
                std::slice::from_raw_parts(self.at.add(PAGE + from as usize), length as usize)
            };
            into.extend_from_slice(piece);
            tail += length;
        }
        self.word(DATA_TAIL).store(head, Ordering::Release);
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: unmaps exactly what `map` mapped.
        unsafe { libc::munmap(self.at.cast(), (self.pages + 1) * PAGE) };
    }
}

/// The id that samples of this event, and of its inherited copies, carry.
pub fn event_id(event: BorrowedFd<'_>) -> io::Result<u64> {
    let mut id = 0;
    // SAFETY: the kernel writes one word.
    check(unsafe { perf::ioctls::ID(event.as_raw_fd(), &mut id) })?;
    Ok(id)
}

/// Sends an event's samples to the ring of another one on the same processor.
pub fn redirect(event: BorrowedFd<'_>, to: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: takes a descriptor by value.
    check(unsafe { perf::ioctls::SET_OUTPUT(event.as_raw_fd(), to.as_raw_fd()) })?;
    Ok(())
}

/// Turns an event on or off, inherited copies included.
pub fn turn(event: BorrowedFd<'_>, on: bool) -> io::Result<()> {
    // SAFETY: takes no pointers.
    check(unsafe {
        if on {
            perf::ioctls::ENABLE(event.as_raw_fd(), 0)
        } else {
            perf::ioctls::DISABLE(event.as_raw_fd(), 0)
        }
    })?;
    Ok(())
}

/// How often an event happened, inherited copies included.
pub fn read_count(event: BorrowedFd<'_>) -> io::Result<u64> {
    let mut count = [0u8; 8];
    // SAFETY: the buffer is as long as said.
    let got = unsafe { libc::read(event.as_raw_fd(), count.as_mut_ptr().cast(), 8) };
    if got != 8 {
        return Err(io::Error::last_os_error());
    }
    Ok(u64::from_ne_bytes(count))
}

fn breakpoint_attr(address: u64) -> perf::bindings::perf_event_attr {
    let mut attr = perf::bindings::perf_event_attr {
        type_: perf::bindings::PERF_TYPE_BREAKPOINT,
        size: size_of::<perf::bindings::perf_event_attr>() as u32,
        bp_type: 3,
        ..Default::default()
    };
    attr.__bindgen_anon_1.sample_period = 1;
    attr.__bindgen_anon_3.bp_addr = address;
    attr.__bindgen_anon_4.bp_len = 8;
    attr.set_exclude_kernel(1);
    attr.set_exclude_hv(1);
    attr
}

/// An event of this very thread.
fn opened_here(mut attr: perf::bindings::perf_event_attr) -> io::Result<OwnedFd> {
    // SAFETY: the attribute is whole and states its size.
    let fd = check(unsafe {
        perf::perf_event_open(
            &mut attr,
            0,
            -1,
            -1,
            perf::bindings::PERF_FLAG_FD_CLOEXEC.into(),
        )
    })?;
    // SAFETY: a fresh descriptor that nobody else owns.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// A watchpoint of this very thread on eight bytes at `address`.
pub fn open_own_watchpoint(address: u64) -> io::Result<OwnedFd> {
    opened_here(breakpoint_attr(address))
}

/// As [`open_own_watchpoint`], with the samples that a program's watchpoints make.
pub fn open_own_sampling_watchpoint(address: u64) -> io::Result<OwnedFd> {
    let mut attr = breakpoint_attr(address);
    attr.sample_type = runtime::layout::WATCH_SAMPLE_TYPE;
    attr.sample_regs_user = runtime::layout::WATCH_REGISTERS;
    attr.sample_stack_user = runtime::layout::WATCH_STACK_BYTES;
    // As the runtime does: waking a reader at each hit would cost more than the hit.
    attr.set_watermark(1);
    attr.__bindgen_anon_2.wakeup_watermark = runtime::layout::WATCH_WAKEUP_BYTES;
    attr.set_sample_id_all(1);
    attr.set_use_clockid(1);
    attr.clockid = libc::CLOCK_MONOTONIC;
    opened_here(attr)
}

/// Aims a watchpoint made by [`open_own_watchpoint`] elsewhere.
pub fn re_aim(event: BorrowedFd<'_>, address: u64) -> io::Result<()> {
    let mut attr = breakpoint_attr(address);
    // SAFETY: the attribute is whole and states its size.
    check(unsafe { perf::ioctls::MODIFY_ATTRIBUTES(event.as_raw_fd(), &mut attr) })?;
    Ok(())
}
