//! The seam to the kernel: every system call of the recorder is behind these two
//! traits, so that tests can be a machine with Intel PT.

use crate::watchpoints::sys::Ring;
use perf_event_open_sys::{self as perf, bindings};
use sketch_model::PerfClock;
use std::{
    ffi::CStr,
    io,
    mem::offset_of,
    os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd},
    sync::atomic::{AtomicU32, AtomicU64, Ordering, fence},
};

const PAGE: usize = 4096;
/// `perf_event_mmap_page.capabilities`: the clock's parameters are valid.
const CAP_USER_TIME_ZERO: u64 = 1 << 4;

/// Opens events.
pub trait Kernel {
    /// An event of the calling thread, and of what it starts, on one processor.
    fn open(&self, attr: &bindings::perf_event_attr, cpu: u32) -> io::Result<Box<dyn Event>>;
}

/// One event.
pub trait Event: Send {
    /// Maps the ring for records: a power of two of pages.
    fn map_ring(&mut self, pages: usize) -> io::Result<()>;
    /// Maps the buffer for the trace, behind the ring. The mapping is read-only,
    /// which makes the kernel overwrite the oldest bytes.
    fn map_trace(&mut self, pages: usize) -> io::Result<()>;
    /// Limits the trace to windows.
    fn set_filter(&self, filter: &CStr) -> io::Result<()>;
    /// Stops tracing, in all that inherited the event.
    fn disable(&self) -> io::Result<()>;
    /// Appends new records to `into` and frees their room.
    fn drain(&self, into: &mut Vec<u8>);
    /// The clock of records; `None` if the kernel does not tell.
    fn clock(&self) -> Option<PerfClock>;
    /// The trace's buffer as it lies in memory.
    fn trace(&self) -> RawTrace;
}

/// A buffer that is written round and round.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RawTrace {
    /// Where the next byte would be written.
    pub head: u64,
    pub bytes: Vec<u8>,
}

/// The kernel that runs.
pub struct Linux;

impl Kernel for Linux {
    fn open(&self, attr: &bindings::perf_event_attr, cpu: u32) -> io::Result<Box<dyn Event>> {
        let mut attr = *attr;
        let cpu = i32::try_from(cpu).map_err(io::Error::other)?;
        let flags = bindings::PERF_FLAG_FD_CLOEXEC.into();
        // SAFETY: the attribute is whole and states its size.
        let fd = check(unsafe { perf::perf_event_open(&mut attr, 0, cpu, -1, flags) })?;
        Ok(Box::new(LinuxEvent {
            trace: None,
            ring: None,
            // SAFETY: a fresh descriptor that nobody else owns.
            fd: unsafe { OwnedFd::from_raw_fd(fd) },
        }))
    }
}

fn check(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(result)
    }
}

// The order of fields is the order in which they go: mappings before the event.
struct LinuxEvent {
    trace: Option<TraceMapping>,
    ring: Option<Ring>,
    fd: OwnedFd,
}

impl LinuxEvent {
    fn ring(&self) -> io::Result<&Ring> {
        self.ring
            .as_ref()
            .ok_or_else(|| io::Error::other("the ring is not mapped"))
    }
}

impl Event for LinuxEvent {
    fn map_ring(&mut self, pages: usize) -> io::Result<()> {
        self.ring = Some(Ring::map(self.fd.as_fd(), pages)?);
        Ok(())
    }

    fn map_trace(&mut self, pages: usize) -> io::Result<()> {
        let ring = self.ring()?;
        let (offset, length) = (ring.length(), pages * PAGE);
        let set = |field, value: usize| ring.word(field).store(value as u64, Ordering::Relaxed);
        set(
            offset_of!(bindings::perf_event_mmap_page, aux_offset),
            offset,
        );
        set(offset_of!(bindings::perf_event_mmap_page, aux_size), length);
        // SAFETY: a fresh shared mapping at an address of the kernel's choice.
        let at = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                length,
                libc::PROT_READ,
                libc::MAP_SHARED,
                self.fd.as_raw_fd(),
                offset as libc::off_t,
            )
        };
        if at == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        self.trace = Some(TraceMapping {
            at: at.cast(),
            length,
        });
        Ok(())
    }

    fn set_filter(&self, filter: &CStr) -> io::Result<()> {
        // SAFETY: the kernel copies a zero-terminated string and does not write.
        check(unsafe {
            perf::ioctls::SET_FILTER(self.fd.as_raw_fd(), filter.as_ptr().cast_mut())
        })?;
        Ok(())
    }

    fn disable(&self) -> io::Result<()> {
        crate::watchpoints::sys::turn(self.fd.as_fd(), false)
    }

    fn drain(&self, into: &mut Vec<u8>) {
        if let Some(ring) = &self.ring {
            ring.drain(into);
        }
    }

    fn clock(&self) -> Option<PerfClock> {
        let page = self.ring.as_ref()?.first_page();
        // SAFETY: the page is mapped as long as the ring, and its fields are
        // aligned; the kernel writes them in other processes' time, hence volatile.
        unsafe {
            let lock = AtomicU32::from_ptr(&raw mut (*page).lock);
            // The kernel changes the parameters at most a few times in a machine's
            // life; a reader that never finds them quiet goes without.
            for _ in 0..1000 {
                let before = lock.load(Ordering::Acquire);
                let caps = (&raw const (*page).__bindgen_anon_1.capabilities).read_volatile();
                let clock = PerfClock {
                    shift: (&raw const (*page).time_shift).read_volatile(),
                    mult: (&raw const (*page).time_mult).read_volatile(),
                    zero: (&raw const (*page).time_zero).read_volatile(),
                };
                fence(Ordering::Acquire);
                if before & 1 == 0 && before == lock.load(Ordering::Relaxed) {
                    return (caps & CAP_USER_TIME_ZERO != 0).then_some(clock);
                }
            }
        }
        None
    }

    fn trace(&self) -> RawTrace {
        let (Some(ring), Some(trace)) = (&self.ring, &self.trace) else {
            return RawTrace::default();
        };
        let head: &AtomicU64 = ring.word(offset_of!(bindings::perf_event_mmap_page, aux_head));
        let head = head.load(Ordering::Acquire);
        let mut bytes = vec![0; trace.length];
        // SAFETY: the mapping is as long as said. Whoever still traces writes
        // into it, so it is copied and not borrowed.
        unsafe { std::ptr::copy_nonoverlapping(trace.at, bytes.as_mut_ptr(), trace.length) };
        RawTrace { head, bytes }
    }
}

/// The mapped buffer of the trace.
struct TraceMapping {
    at: *const u8,
    length: usize,
}

// SAFETY: the mapping belongs to this value alone, and is only read.
unsafe impl Send for TraceMapping {}

impl Drop for TraceMapping {
    fn drop(&mut self) {
        // SAFETY: unmaps exactly what was mapped.
        unsafe { libc::munmap(self.at.cast_mut().cast(), self.length) };
    }
}
