//! `struct perf_event_attr` as far as watchpoints need it: version 5 (112 bytes) for
//! rings, which old kernels know, and version 7 (128 bytes) for signals.

use crate::layout::{WATCH_REGISTERS, WATCH_SAMPLE_TYPE, WATCH_STACK_BYTES, WATCH_WAKEUP_BYTES};

pub const PERF_TYPE_BREAKPOINT: u32 = 5;
const HW_BREAKPOINT_RW: u32 = 3;
const CLOCK_MONOTONIC: i32 = 1;

const DISABLED: u64 = 1;
const INHERIT: u64 = 1 << 1;
const EXCLUDE_KERNEL: u64 = 1 << 5;
const EXCLUDE_HV: u64 = 1 << 6;
const WATERMARK: u64 = 1 << 14;
const SAMPLE_ID_ALL: u64 = 1 << 18;
const USE_CLOCKID: u64 = 1 << 25;
const INHERIT_THREAD: u64 = 1 << 35;
const REMOVE_ON_EXEC: u64 = 1 << 36;
const SIGTRAP: u64 = 1 << 37;
const SAMPLE_ADDRESS: u64 = 1 << 3;
const VERSION_5: u32 = 112;
const VERSION_7: u32 = 128;

#[repr(C)]
pub struct PerfEventAttr {
    pub kind: u32,
    pub size: u32,
    pub config: u64,
    pub sample_period: u64,
    pub sample_type: u64,
    pub read_format: u64,
    pub flags: u64,
    pub wakeup: u32,
    pub breakpoint_type: u32,
    pub breakpoint_address: u64,
    pub breakpoint_length: u64,
    pub branch_sample_type: u64,
    pub sample_regs_user: u64,
    pub sample_stack_user: u32,
    pub clockid: i32,
    pub sample_regs_intr: u64,
    pub aux_watermark: u32,
    pub sample_max_stack: u16,
    pub reserved: u16,
    pub aux_sample_size: u32,
    pub aux_action: u32,
    /// What the signal carries.
    pub signal_data: u64,
}

const _: () = assert!(size_of::<PerfEventAttr>() == VERSION_7 as usize);

impl PerfEventAttr {
    /// Fills a zeroed attribute for a watchpoint that watches nothing yet. It is
    /// disabled: an enabled one costs at every switch to and from the program's
    /// threads, wherever it is aimed.
    pub fn sleep_at(&mut self, address: u64) {
        self.kind = PERF_TYPE_BREAKPOINT;
        self.size = VERSION_5;
        self.sample_period = 1;
        self.sample_type = WATCH_SAMPLE_TYPE;
        self.flags = DISABLED
            | INHERIT
            | EXCLUDE_KERNEL
            | EXCLUDE_HV
            | WATERMARK
            | SAMPLE_ID_ALL
            | USE_CLOCKID
            | INHERIT_THREAD
            | REMOVE_ON_EXEC;
        self.wakeup = WATCH_WAKEUP_BYTES;
        self.breakpoint_type = HW_BREAKPOINT_RW;
        self.breakpoint_address = address;
        self.breakpoint_length = 8;
        self.sample_regs_user = WATCH_REGISTERS;
        self.sample_stack_user = WATCH_STACK_BYTES;
        self.clockid = CLOCK_MONOTONIC;
    }

    /// The same for one whose hits come by SIGTRAP, with `data`. Each such event is
    /// one for all processors, and never another process's.
    pub fn sleep_signalling_at(&mut self, address: u64, data: u64) {
        self.kind = PERF_TYPE_BREAKPOINT;
        self.size = VERSION_7;
        self.sample_period = 1;
        // Without it the signal carries no address.
        self.sample_type = SAMPLE_ADDRESS;
        self.flags = DISABLED
            | INHERIT
            | EXCLUDE_KERNEL
            | EXCLUDE_HV
            | INHERIT_THREAD
            | REMOVE_ON_EXEC
            | SIGTRAP;
        self.wakeup = 0;
        self.breakpoint_type = HW_BREAKPOINT_RW;
        self.breakpoint_address = address;
        self.breakpoint_length = 8;
        // Rings may have been tried with it before.
        self.sample_regs_user = 0;
        self.sample_stack_user = 0;
        self.clockid = 0;
        self.signal_data = data;
    }

    /// Aims it, and wakes it.
    pub fn aim(&mut self, address: u64, size: u64) {
        self.flags &= !DISABLED;
        self.breakpoint_address = address;
        self.breakpoint_length = size;
    }

    /// For kernels before 5.13: forked children and executed programs keep the
    /// events; the agent drops hits of other processes.
    pub fn without_new_flags(&mut self) {
        self.flags &= !(INHERIT_THREAD | REMOVE_ON_EXEC);
    }
}
