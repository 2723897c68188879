//! The constructor of a tracked build, behind the mark that the agent finds it by.

use crate::{governor, recorder_state, served, threads, tiring, watch};
use core::arch::global_asm;
use inprocess_capture::{
    activate::{Constructor, Form, Start},
    signal_stacks,
};
use inprocess_layout::{REGION_SIZE, Region, START_MARK};

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

unsafe extern "C" {
    fn __failsketch_constructor(argc: i32, argv: *mut *mut u8, envp: *mut *mut u8);
}

// Named only so that no symbol of ours can clash with the program's.
#[used]
#[allow(non_upper_case_globals)]
#[unsafe(no_mangle)]
#[unsafe(link_section = ".init_array.00001")]
static __failsketch_constructor_entry: Constructor = __failsketch_constructor;

/// Called by the preloaded object and then by the C library, or by the latter alone; the
/// first call takes the activation out of the environment.
extern "C" fn start(argc: i32, argv: *mut *mut u8, envp: *mut *mut u8) {
    if let Some(start) = Start::of(argc, argv, envp) {
        let form = Form {
            size: REGION_SIZE,
            own_pages: Some(recorder_state::pages()),
            shared: Some(recorder_state::shared()),
            prepare,
        };
        // SAFETY: constructors run on the only thread there is; without an activation in
        // the environment a second call does nothing.
        unsafe { start.record(form) };
    }
}

/// Threads record events here, and there may be watchpoints.
///
/// # Safety
/// As [`Form::prepare`].
unsafe fn prepare(region: *mut Region) {
    signal_stacks::prepare_for_threads();
    // SAFETY: the caller's promise; thread ids are known before hooks are measured.
    unsafe {
        served::join(region);
        threads::learn_tid_offset(region);
        governor::calibrate(region);
        tiring::begin();
        watch::open(region);
    }
}
