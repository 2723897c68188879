//! `struct perf_event_attr` as far as watchpoints need it: version 5, 112 bytes, which
//! old kernels know.

use inprocess_layout::{WATCH_REGISTERS, WATCH_SAMPLE_TYPE, WATCH_STACK_BYTES, WATCH_WAKEUP_BYTES};

const PERF_TYPE_BREAKPOINT: u32 = 5;
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
}

const _: () = assert!(size_of::<PerfEventAttr>() == 112);

impl PerfEventAttr {
    /// Fills a zeroed attribute for a watchpoint that watches nothing yet. It is
    /// disabled: an enabled one costs at every switch to and from the program's
    /// threads, wherever it is aimed.
    pub fn sleep_at(&mut self, address: u64) {
        self.kind = PERF_TYPE_BREAKPOINT;
        self.size = size_of::<PerfEventAttr>() as u32;
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
