//! The hooks that a tracked build calls from assembly: they keep every register.
//!
//! A hook in a hot loop is passed by (`inprocess_layout::Fatigue`), and must not cost the
//! loop its registers either. So what the instrumenter puts there
//! (`crates/instrumenter/src/hooks/kept.rs`) is assembly that the compiler takes for two
//! scratch registers, flags and memory; only behind its comparisons it calls one of the
//! functions here. They have everything else as it was when they return: general
//! registers and the lower halves of vector registers, which is all that compiled code
//! of ours touches (it is built for the least x86-64 processor).
//!
//! `r11` says what is recorded; values stand in registers that the compiler has chosen,
//! whose numbers are in `r11`, too. `r10` is the first clock reading with its top bit set,
//! or the door ([`inprocess_layout::Fatigue`]) that the thread came through.
//!
//! Before all registers are saved, a thread that the words have no room for is looked up in
//! its slot: if it has tired of the door, that is all.
//!
//! Aiming a watchpoint goes the same way, but for words of its own: what a slot was last
//! asked to watch, and whether asking still changes anything.
//!
//! Functions with such assembly have no red zone, so a call may push at any place.
//! Each instruction here has its unwind rules: a signal may come at any of them.

use crate::{
    hooks,
    recorder_state::{RecorderState, TABLE, Watch},
    watch,
};
use core::{
    arch::{asm, global_asm},
    mem::offset_of,
};
use inprocess_capture::state::State;
use inprocess_layout::{Control, DOOR_OUTCOME, DOORS, Region, THREAD_SLOTS, ThreadSlot};

const _: () = assert!(DOORS == 4 && THREAD_SLOTS < TABLE && TABLE.is_power_of_two());

/// In the upper half of `r11`, of an access: the size in the low half, then the numbers of
/// the registers with address, value, and whether it happened.
const ADDRESS_AT: u32 = 48;
const VALUE_AT: u32 = 52;
const FLAGS_AT: u32 = 56;
const HAS_VALUE: u64 = 1 << 60;
const HAS_FLAGS: u64 = 1 << 61;
/// Of a call's value: the number of its register, in bits of `__failsketch_value`'s second
/// argument that are free.
const PASSED_AT: u32 = 32 + 20;

/// General registers as the program had them, by their numbers in machine code.
type Registers = [u64; 16];

/// # Safety
/// `registers` must be a thunk's.
unsafe fn register(registers: *const Registers, what: u64, at: u32) -> u64 {
    let number = (what >> at) as usize & 15;
    // SAFETY: the caller's promise; the number is in bounds.
    unsafe { registers.cast::<u64>().add(number).read() }
}

unsafe extern "C" fn read(what: u64, registers: *const Registers, before: u64, after: u64) {
    // SAFETY: a thunk called.
    unsafe { access(what, registers, before, after, 0) };
}

unsafe extern "C" fn wrote(what: u64, registers: *const Registers, before: u64, after: u64) {
    // SAFETY: a thunk called.
    unsafe { access(what, registers, before, after, hooks::WRITES) };
}

/// # Safety
/// `registers` must be a thunk's.
#[inline(always)]
unsafe fn access(what: u64, registers: *const Registers, before: u64, after: u64, writes: u32) {
    // SAFETY: the caller's promise.
    let (address, value, more) = unsafe {
        let value = if what & HAS_VALUE != 0 {
            register(registers, what, VALUE_AT)
        } else {
            0
        };
        let more = if what & HAS_FLAGS != 0 {
            register(registers, what, FLAGS_AT) as u32
        } else {
            0
        };
        (register(registers, what, ADDRESS_AT), value, more)
    };
    if after != 0 && more & hooks::DID_NOT_HAPPEN == 0 {
        let size = (what >> 32) as u32 & 0xffff;
        let how = hooks::CAN_TIRE | writes | size;
        hooks::access(what as u32, how, address, value, before, after);
    }
}

unsafe extern "C" fn branch(what: u64, _: *const Registers, door: u64) {
    hooks::branch(what as u32, door as u32 - DOOR_OUTCOME as u32);
}

unsafe extern "C" fn call(what: u64) {
    hooks::call(what as u32);
}

unsafe extern "C" fn arm(what: u64, registers: *const Registers) {
    // SAFETY: a thunk called.
    let address = unsafe { register(registers, what, ADDRESS_AT) };
    watch::arm(what as u32, address, (what >> 32) as u32 & 0xffff);
}

unsafe extern "C" fn value(what: u64, registers: *const Registers) {
    // SAFETY: a thunk called.
    let value = unsafe { register(registers, what, PASSED_AT) };
    let passed = (what >> 32) as u32 & !(15 << (PASSED_AT - 32));
    hooks::seen(what as u32, passed, value);
}

// Goes to `out` if recording is off, or if this thread's slot says that it has tired of
// the door in `r10` of the site in `r11`; else falls through. Flags alone are changed.
global_asm!(
    ".macro failsketch_look out",
    "cmpl $0, __failsketch_control_page+{enabled}(%rip)",
    "je \\out",
    "push %rax",
    ".cfi_def_cfa_offset 16",
    "push %rcx",
    ".cfi_def_cfa_offset 24",
    "push %rdx",
    ".cfi_def_cfa_offset 32",
    "mov __failsketch_thread(%rip), %rax",
    // Not known, or a forked child.
    "test %rax, %rax",
    "je 91f",
    "mov %fs:(%rax), %eax",
    "mov %eax, %ecx",
    "and ${table_mask}, %ecx",
    "lea __failsketch_recorder_pages+{table}(%rip), %rdx",
    "mov (%rdx,%rcx,8), %rcx",
    "cmp %ecx, %eax",
    "jne 90f",
    "shr $32, %rcx",
    "cmp ${slots}, %ecx",
    "jae 90f",
    "imul ${slot_size}, %rcx, %rcx",
    "mov __failsketch_state_pages+{region}(%rip), %rdx",
    "test %rdx, %rdx",
    "je 91f",
    "lea {threads}(%rdx,%rcx), %rdx",
    "cmp %eax, {tid}(%rdx)",
    "jne 90f",
    "mov %r11d, %eax",
    "lea (%r10,%rax,4), %rax",
    "mov __failsketch_control_page+{wakings}(%rip), %cl",
    "cmp %cl, {tired}(%rdx,%rax)",
    "jne 90f",
    "91:",
    "pop %rdx",
    ".cfi_def_cfa_offset 24",
    "pop %rcx",
    ".cfi_def_cfa_offset 16",
    "pop %rax",
    ".cfi_def_cfa_offset 8",
    "jmp \\out",
    "90:",
    ".cfi_def_cfa_offset 32",
    "pop %rdx",
    ".cfi_def_cfa_offset 24",
    "pop %rcx",
    ".cfi_def_cfa_offset 16",
    "pop %rax",
    ".cfi_def_cfa_offset 8",
    ".endm",
    // Calls `target` with what `r11` says, the registers, `r10`, and, after `fence`, the
    // time. `r10` and `r11` alone are not what they were afterwards.
    ".macro failsketch_keep target, fence, clock",
    "push %rbp",
    ".cfi_def_cfa_offset 16",
    ".cfi_offset %rbp, -16",
    "mov %rsp, %rbp",
    ".cfi_def_cfa_register %rbp",
    "sub $384, %rsp",
    "and $-16, %rsp",
    "mov %rax, -128(%rbp)",
    "mov %rdx, -112(%rbp)",
    ".if \\clock",
    "\\fence",
    "lfence",
    ".byte 0x3e",
    "rdtsc",
    "shl $32, %rdx",
    "or %rdx, %rax",
    ".endif",
    "mov %rcx, -120(%rbp)",
    "mov %rbx, -104(%rbp)",
    "mov (%rbp), %rcx",
    "mov %rcx, -88(%rbp)",
    "mov %rsi, -80(%rbp)",
    "mov %rdi, -72(%rbp)",
    "mov %r8, -64(%rbp)",
    "mov %r9, -56(%rbp)",
    "mov %r10, -48(%rbp)",
    "mov %r11, -40(%rbp)",
    "mov %r12, -32(%rbp)",
    "mov %r13, -24(%rbp)",
    "mov %r14, -16(%rbp)",
    "mov %r15, -8(%rbp)",
    ".irp n, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15",
    "movaps %xmm\\n, 16*\\n(%rsp)",
    ".endr",
    "mov %r11, %rdi",
    "lea -128(%rbp), %rsi",
    "mov %r10, %rdx",
    "mov %rax, %rcx",
    "call \\target",
    ".irp n, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15",
    "movaps 16*\\n(%rsp), %xmm\\n",
    ".endr",
    "mov -128(%rbp), %rax",
    "mov -120(%rbp), %rcx",
    "mov -112(%rbp), %rdx",
    "mov -80(%rbp), %rsi",
    "mov -72(%rbp), %rdi",
    "mov -64(%rbp), %r8",
    "mov -56(%rbp), %r9",
    "leave",
    ".cfi_def_cfa %rsp, 8",
    ".cfi_restore %rbp",
    "ret",
    ".endm",
    ".macro failsketch_begin name",
    ".p2align 4",
    ".globl \\name",
    ".type \\name,@function",
    "\\name:",
    ".cfi_startproc",
    ".endm",
    ".macro failsketch_end name",
    ".cfi_endproc",
    ".size \\name, . - \\name",
    ".endm",
    ".macro failsketch_access name, target, fence",
    "failsketch_begin \\name",
    "test %r10, %r10",
    "js 1f",
    "failsketch_look 2f",
    "xor %r10d, %r10d",
    "1:",
    "btr $63, %r10",
    "failsketch_keep \\target, \\fence, 1",
    "2:",
    "ret",
    "failsketch_end \\name",
    ".endm",
    ".macro failsketch_point name, target",
    "failsketch_begin \\name",
    "failsketch_look 2f",
    "failsketch_keep \\target, nop, 0",
    "2:",
    "ret",
    "failsketch_end \\name",
    ".endm",
    ".globl __failsketch_thread",
    ".set __failsketch_thread, __failsketch_state_pages+{tid_offset}",
    ".globl __failsketch_asking",
    ".set __failsketch_asking, __failsketch_recorder_pages+{asking}",
    ".globl __failsketch_countdown",
    ".set __failsketch_countdown, __failsketch_recorder_pages+{countdown}",
    ".globl __failsketch_asked",
    ".set __failsketch_asked, __failsketch_recorder_pages+{asked}",
    ".pushsection .text.__failsketch_kept,\"ax\",@progbits",
    // The site in `r10d`; there comes back the time with its top bit set, or the thread's
    // id if it is tired, or zero while recording is off.
    "failsketch_begin __failsketch_kept_clock",
    "mov %r10d, %r11d",
    "xor %r10d, %r10d",
    "failsketch_look 2f",
    "push %rax",
    ".cfi_def_cfa_offset 16",
    "push %rdx",
    ".cfi_def_cfa_offset 24",
    "lfence",
    ".byte 0x3e",
    "rdtsc",
    "shl $32, %rdx",
    "lea (%rdx,%rax), %r10",
    "bts $63, %r10",
    "pop %rdx",
    ".cfi_def_cfa_offset 16",
    "pop %rax",
    ".cfi_def_cfa_offset 8",
    "ret",
    "2:",
    "cmpl $0, __failsketch_control_page+{enabled}(%rip)",
    "je 3f",
    "mov __failsketch_thread(%rip), %r10",
    "mov %fs:(%r10), %r10d",
    "3:",
    "ret",
    "failsketch_end __failsketch_kept_clock",
    "failsketch_access __failsketch_kept_read, {read}, nop",
    "failsketch_access __failsketch_kept_wrote, {wrote}, mfence",
    "failsketch_point __failsketch_kept_branch, {branch}",
    "failsketch_point __failsketch_kept_call, {call}",
    "failsketch_point __failsketch_kept_value, {value}",
    "failsketch_begin __failsketch_kept_arm",
    "failsketch_keep {arm}, nop, 0",
    "failsketch_end __failsketch_kept_arm",
    ".popsection",
    enabled = const offset_of!(Control, enabled),
    wakings = const offset_of!(Control, wakings),
    region = const offset_of!(State, region),
    tid_offset = const offset_of!(State, tid_offset),
    table = const offset_of!(RecorderState, table),
    asking = const offset_of!(RecorderState, watch) + offset_of!(Watch, asking),
    countdown = const offset_of!(RecorderState, watch) + offset_of!(Watch, countdown),
    asked = const offset_of!(RecorderState, watch) + offset_of!(Watch, asked),
    table_mask = const TABLE - 1,
    slots = const THREAD_SLOTS,
    slot_size = const size_of::<ThreadSlot>(),
    threads = const offset_of!(Region, threads),
    tid = const offset_of!(ThreadSlot, tid),
    tired = const offset_of!(ThreadSlot, tired),
    read = sym read,
    wrote = sym wrote,
    branch = sym branch,
    call = sym call,
    value = sym value,
    arm = sym arm,
    options(att_syntax),
);

unsafe extern "C" {
    fn __failsketch_kept_read();
    fn __failsketch_kept_wrote();
}

/// The hook of a load of eight bytes, for measuring what it costs.
pub fn read_at(site: u32, address: u64, before: u64) {
    // SAFETY: only an address.
    unsafe { call_access(__failsketch_kept_read, site, address, before) };
}

/// The hook of a store of eight bytes, for measuring what it costs.
pub fn written_at(site: u32, address: u64, before: u64) {
    // SAFETY: only an address.
    unsafe { call_access(__failsketch_kept_wrote, site, address, before) };
}

/// # Safety
/// `thunk` must be one for accesses.
unsafe fn call_access(thunk: unsafe extern "C" fn(), site: u32, address: u64, before: u64) {
    const RCX: u64 = 1;
    let what = u64::from(site) | 8 << 32 | RCX << ADDRESS_AT;
    // SAFETY: the thunk keeps all registers but these.
    unsafe {
        asm!(
            "call {thunk}",
            thunk = in(reg) thunk,
            in("rcx") address,
            inout("r10") before | 1 << 63 => _,
            inout("r11") what => _,
        );
    }
}
