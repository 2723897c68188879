//! The region's file: a sealed memfd whose pages all exist.

use super::lifetimes;
use super::live::LiveRegion;
use crate::error::ProcessError;
use crate::sys::{self, MemoryUse};
use inprocess_layout::{
    CAPTURE_SIZE, FREED_SETS, Header, Lifetimes, MAGIC, REGION_SIZE, Region, SLOT_FREE,
    THREAD_SLOTS, ThreadSlot, VERSION,
};
use std::{
    fs::File,
    mem::{offset_of, size_of},
    os::{
        fd::{AsFd, AsRawFd, BorrowedFd, RawFd},
        unix::fs::FileExt,
    },
};

/// What the agent asks of the runtime.
#[derive(Clone, Copy, Debug)]
pub struct RegionSettings {
    /// How many watchpoint slots to open.
    pub want_watch: u32,
    /// Processors to open them on.
    pub cpus: u32,
    /// The number that the socket for descriptors has in the process.
    pub socket: Option<RawFd>,
    /// How often slots may be re-aimed in one run.
    pub arm_limit: u64,
    /// How long the program may wait for the agent to take its watchpoints.
    pub reply_patience_ms: u64,
    /// The program has a runtime of its own, whose threads record: what is preloaded
    /// only serves it.
    pub tracked: bool,
    /// Where that runtime starts, as the program's file counts addresses, if known.
    pub start: Option<u64>,
}

/// A region that no process has claimed yet, or that one has.
#[derive(Debug)]
pub struct RegionFile {
    file: File,
    nonce: u64,
    size: usize,
}

impl RegionFile {
    pub fn create(settings: &RegionSettings) -> Result<RegionFile, ProcessError> {
        let nonce = sys::random_u64().map_err(|e| ProcessError::call("getrandom", e))?;
        let file = File::from(
            sys::memfd(c"failsketch-region", MemoryUse::Data)
                .map_err(|e| ProcessError::call("memfd_create", e))?,
        );
        let size = match settings.tracked {
            true => REGION_SIZE,
            false => CAPTURE_SIZE,
        };
        file.set_len(size as u64)
            .map_err(|e| ProcessError::call("ftruncate", e))?;
        sys::allocate(file.as_fd(), size as u64).map_err(|e| ProcessError::call("fallocate", e))?;
        let put = |field: usize, bytes: &[u8]| {
            let at = offset_of!(Region, header) + field;
            file.write_all_at(bytes, at as u64)
                .map_err(|e| ProcessError::call("pwrite", e))
        };
        put(offset_of!(Header, magic), &MAGIC.to_le_bytes())?;
        put(offset_of!(Header, version), &VERSION.to_le_bytes())?;
        put(offset_of!(Header, nonce), &nonce.to_le_bytes())?;
        put(
            offset_of!(Header, region_size),
            &(size as u64).to_le_bytes(),
        )?;
        put(
            offset_of!(Header, want_watch),
            &settings.want_watch.to_le_bytes(),
        )?;
        put(offset_of!(Header, cpus), &settings.cpus.to_le_bytes())?;
        put(
            offset_of!(Header, socket),
            &settings.socket.unwrap_or(-1).to_le_bytes(),
        )?;
        put(
            offset_of!(Header, arm_limit),
            &settings.arm_limit.to_le_bytes(),
        )?;
        put(
            offset_of!(Header, reply_patience_ms),
            &settings.reply_patience_ms.to_le_bytes(),
        )?;
        put(
            offset_of!(Header, tracked),
            &u32::from(settings.tracked).to_le_bytes(),
        )?;
        put(
            offset_of!(Header, start),
            &settings.start.unwrap_or(0).to_le_bytes(),
        )?;
        sys::seal_size(file.as_fd()).map_err(|e| ProcessError::call("fcntl(F_ADD_SEALS)", e))?;
        Ok(RegionFile { file, nonce, size })
    }

    /// The value of the activation variable for a process that inherits the descriptor.
    pub fn activation(&self) -> String {
        format!("{}:{:016x}", self.file.as_raw_fd(), self.nonce)
    }

    pub fn fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    /// A view of it while the process runs.
    pub fn live(&self) -> Result<LiveRegion, ProcessError> {
        LiveRegion::map(self.file.as_fd(), self.size).map_err(|e| ProcessError::call("mmap", e))
    }

    fn copy_to(&self, bytes: &mut [u8], from: usize, length: usize) -> Result<(), ProcessError> {
        let into = bytes.get_mut(from..from + length).unwrap_or_default();
        self.file
            .read_exact_at(into, from as u64)
            .map_err(|e| ProcessError::call("pread", e))
    }

    /// The region's bytes as they are now. Slots that no thread holds are left
    /// zero: most runs have few threads, and the slots are most of the region. So is what
    /// only hooks look at, and sets of freed blocks that were never used.
    pub fn bytes(&self) -> Result<Vec<u8>, ProcessError> {
        let mut bytes = vec![0; self.size];
        let mut copy = |from: usize, length: usize| -> Result<u32, ProcessError> {
            self.copy_to(&mut bytes, from, length)?;
            Ok(u32::from_le_bytes([
                bytes[from],
                bytes[from + 1],
                bytes[from + 2],
                bytes[from + 3],
            ]))
        };
        let slots = offset_of!(Region, threads);
        copy(0, CAPTURE_SIZE)?;
        let held = self.size.saturating_sub(slots) / size_of::<ThreadSlot>();
        for number in 0..held.min(THREAD_SLOTS) {
            let slot = slots + number * size_of::<ThreadSlot>();
            let state = copy(slot + offset_of!(ThreadSlot, state), size_of::<u32>())?;
            if state != SLOT_FREE {
                copy(slot, size_of::<ThreadSlot>())?;
            }
        }
        if self.size == REGION_SIZE {
            let entries = offset_of!(Lifetimes, blocks);
            let table = offset_of!(Region, lifetimes);
            self.copy_to(&mut bytes, table, entries)?;
            for set in 0..=FREED_SETS {
                if let Some((from, length)) = lifetimes::used_set(&bytes, set) {
                    self.copy_to(&mut bytes, from, length)?;
                }
            }
        }
        Ok(bytes)
    }
}
