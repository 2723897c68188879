//! The region while the process runs: the few words that both sides write, and
//! the slots of threads that have ended.
//!
//! Everything is read and written as atomic words, because the other side may be
//! writing too, and nothing read here is trusted to be more than a number.

use super::threads::{self, EndedThreads};
use inprocess_layout::{
    Control, Fatigue, Header, OFF_HITS, OFF_HOOKS, Region, SANDBOXED, SLOT_BUSY, SLOT_FREE,
    SLOT_USED, THREAD_SLOTS, ThreadSlot, WATCH_READY, next_waking,
};
use sketch_model::{PauseReason, Pid, Tid};
use std::{
    io,
    mem::{offset_of, size_of},
    os::fd::{AsRawFd, BorrowedFd},
    sync::atomic::{AtomicI64, AtomicU32, AtomicU64, Ordering},
};

// What `harvest` clears word by word.
const _: () = assert!(offset_of!(ThreadSlot, state) == 0 && offset_of!(ThreadSlot, tid) == 4);
const _: () = assert!(size_of::<ThreadSlot>().is_multiple_of(8));

/// The agent's own mapping of a region.
#[derive(Debug)]
pub struct LiveRegion {
    at: *mut u8,
    size: usize,
}

// SAFETY: the mapping belongs to this value alone; what is shared with another
// process is only touched as atomic words or while a slot is ours.
unsafe impl Send for LiveRegion {}

impl LiveRegion {
    /// `size` is the file's.
    pub fn map(file: BorrowedFd<'_>, size: usize) -> io::Result<LiveRegion> {
        // SAFETY: a fresh shared mapping at an address of the kernel's choice; the
        // file is sealed at this size.
        let at = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                size,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                file.as_raw_fd(),
                0,
            )
        };
        if at == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(LiveRegion {
            at: at.cast(),
            size,
        })
    }

    fn u32_at(&self, offset: usize) -> &AtomicU32 {
        // SAFETY: offsets are those of aligned fields within the region.
        unsafe { AtomicU32::from_ptr(self.at.add(offset).cast()) }
    }

    fn u64_at(&self, offset: usize) -> &AtomicU64 {
        // SAFETY: offsets are those of aligned fields within the region.
        unsafe { AtomicU64::from_ptr(self.at.add(offset).cast()) }
    }

    fn control(&self, field: usize) -> &AtomicU32 {
        self.u32_at(offset_of!(Region, control) + field)
    }

    fn account(&self) -> &AtomicI64 {
        let offset = offset_of!(Region, control) + offset_of!(Control, credit);
        // SAFETY: an aligned field within the region.
        unsafe { AtomicI64::from_ptr(self.at.add(offset).cast()) }
    }

    /// The process that has claimed the region.
    pub fn pid(&self) -> Option<Pid> {
        let pid = self
            .u32_at(offset_of!(Region, header) + offset_of!(Header, pid))
            .load(Ordering::Acquire);
        i32::try_from(pid).ok().filter(|pid| *pid > 0).map(Pid)
    }

    /// The agent is here. The process may be alone for `patience` ticks.
    pub fn look(&self, now: u64, patience: u64) {
        let control = offset_of!(Region, control);
        self.u64_at(control + offset_of!(Control, patience))
            .store(patience, Ordering::Relaxed);
        self.u64_at(control + offset_of!(Control, looked_at))
            .store(now, Ordering::Release);
    }

    pub fn govern(&self) {
        self.control(offset_of!(Control, governed))
            .store(1, Ordering::Release);
    }

    pub fn add_credit(&self, ticks: i64) {
        self.account().fetch_add(ticks, Ordering::AcqRel);
    }

    pub fn credit(&self) -> i64 {
        self.account().load(Ordering::Acquire)
    }

    pub fn enabled(&self) -> bool {
        self.control(offset_of!(Control, enabled))
            .load(Ordering::Acquire)
            != 0
    }

    /// The counter when recording began; zero before.
    pub fn activated_at(&self) -> u64 {
        self.u64_at(offset_of!(Region, control) + offset_of!(Control, activated_at))
            .load(Ordering::Acquire)
    }

    /// Processor time that the runtime's start took.
    pub fn activation_ns(&self) -> u64 {
        self.u64_at(offset_of!(Region, header) + offset_of!(Header, activation_ns))
            .load(Ordering::Acquire)
    }

    pub fn off_since(&self) -> u64 {
        self.u64_at(offset_of!(Region, control) + offset_of!(Control, off_since))
            .load(Ordering::Acquire)
    }

    pub fn off_reason(&self) -> PauseReason {
        match self
            .control(offset_of!(Control, off_reason))
            .load(Ordering::Acquire)
        {
            OFF_HOOKS => PauseReason::Hooks,
            OFF_HITS => PauseReason::WatchpointHits,
            _ => PauseReason::Unknown,
        }
    }

    pub fn turn_on(&self) {
        self.control(offset_of!(Control, enabled))
            .store(1, Ordering::Release);
    }

    /// Unless hooks have just done it.
    pub fn turn_off(&self, reason: PauseReason, now: u64) {
        let turned = self.control(offset_of!(Control, enabled)).compare_exchange(
            1,
            0,
            Ordering::AcqRel,
            Ordering::Relaxed,
        );
        if turned.is_ok() {
            let reason = match reason {
                PauseReason::Hooks => OFF_HOOKS,
                _ => OFF_HITS,
            };
            self.control(offset_of!(Control, off_reason))
                .store(reason, Ordering::Relaxed);
            self.u64_at(offset_of!(Region, control) + offset_of!(Control, off_since))
                .store(now, Ordering::Release);
        }
    }

    /// Bit n: watchpoint slot n has been aimed.
    pub fn aimed(&self) -> u32 {
        self.control(offset_of!(Control, aimed))
            .load(Ordering::Acquire)
    }

    /// Whether the process has watchpoints, aimed or not.
    pub fn watch_is_open(&self) -> bool {
        let state = offset_of!(Region, header) + offset_of!(Header, watch_state);
        self.u32_at(state).load(Ordering::Acquire) == WATCH_READY
    }

    /// No watchpoint is aimed any more, and the process is to close them.
    pub fn release_watch(&self) {
        self.u64_at(offset_of!(Region, header) + offset_of!(Header, arm_limit))
            .store(0, Ordering::Release);
        self.control(offset_of!(Control, release_watch))
            .store(1, Ordering::Release);
    }

    /// Whether it has.
    pub fn watch_is_released(&self) -> bool {
        let released = offset_of!(Region, header) + offset_of!(Header, watch_released);
        self.u32_at(released).load(Ordering::Acquire) != 0
    }

    /// Wakes the threads that have tired of sites: each says a little more of each.
    pub fn wake(&self) {
        let words = offset_of!(Region, fatigue);
        if self.size < words + size_of::<Fatigue>() {
            return;
        }
        let wakings = self.control(offset_of!(Control, wakings));
        let next = next_waking(wakings.load(Ordering::Relaxed));
        wakings.store(next, Ordering::Release);
        for at in (words..words + size_of::<Fatigue>()).step_by(8) {
            let word = self.u64_at(at);
            if word.load(Ordering::Relaxed) != 0 {
                word.store(0, Ordering::Relaxed);
            }
        }
    }

    /// Whether recording is off for good.
    pub fn counter_forbidden(&self) -> bool {
        self.control(offset_of!(Control, counter_forbidden))
            .load(Ordering::Acquire)
            != 0
    }

    pub fn set_sandboxed(&self, sandboxed: bool) {
        let said = if sandboxed { SANDBOXED } else { 0 };
        self.control(offset_of!(Control, sandboxed))
            .store(said, Ordering::Release);
    }

    fn slot(number: usize) -> usize {
        offset_of!(Region, threads) + number * size_of::<ThreadSlot>()
    }

    /// A program that only has its crash captured has none.
    fn slots(&self) -> usize {
        (self.size.saturating_sub(Self::slot(0)) / size_of::<ThreadSlot>()).min(THREAD_SLOTS)
    }

    pub fn used_slots(&self) -> usize {
        (0..self.slots())
            .filter(|number| {
                let state = self.u32_at(Self::slot(*number) + offset_of!(ThreadSlot, state));
                state.load(Ordering::Relaxed) == SLOT_USED
            })
            .count()
    }

    /// A slot's bytes, each word read once.
    fn copy_of_slot(&self, base: usize) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(size_of::<ThreadSlot>());
        for at in (0..size_of::<ThreadSlot>()).step_by(8) {
            let word = self.u64_at(base + at).load(Ordering::Relaxed);
            bytes.extend_from_slice(&word.to_le_bytes());
        }
        bytes
    }

    /// Takes what threads that no longer live have recorded, and frees their slots.
    pub fn harvest(&self, into: &mut EndedThreads, lives: impl Fn(Tid) -> bool) {
        for number in 0..self.slots() {
            let base = Self::slot(number);
            let state = self.u32_at(base + offset_of!(ThreadSlot, state));
            let owner = self.u32_at(base + offset_of!(ThreadSlot, tid));
            if state.load(Ordering::Acquire) != SLOT_USED {
                continue;
            }
            let tid = owner.load(Ordering::Relaxed);
            if lives(Tid(tid as i32))
                || state
                    .compare_exchange(SLOT_USED, SLOT_BUSY, Ordering::Acquire, Ordering::Relaxed)
                    .is_err()
            {
                continue;
            }
            // The runtime may have given it to a thread that lives meanwhile.
            if owner.load(Ordering::Relaxed) != tid {
                state.store(SLOT_USED, Ordering::Release);
                continue;
            }
            // The slot's thread has ended, and the exchange keeps others from claiming
            // it. A process gone wild may write all the same; what is read is a copy.
            into.keep(threads::read_slot(&self.copy_of_slot(base)));
            // All but the state, which is what makes the slot free.
            owner.store(0, Ordering::Relaxed);
            for at in (8..size_of::<ThreadSlot>()).step_by(8) {
                self.u64_at(base + at).store(0, Ordering::Relaxed);
            }
            state.store(SLOT_FREE, Ordering::Release);
            self.control(offset_of!(Control, freed))
                .fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl Drop for LiveRegion {
    fn drop(&mut self) {
        // SAFETY: unmaps exactly what `map` mapped.
        unsafe { libc::munmap(self.at.cast(), self.size) };
    }
}
