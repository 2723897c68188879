//! What the crash handler leaves behind.

use crate::MAPS_BYTES;

/// Bytes of the crashing thread's stack kept.
pub const STACK_BYTES: usize = 64 * 1024;
/// Bytes kept of what an aborting program said: a message, an exception's text.
pub const WORDS_BYTES: usize = 1024;
/// Bytes kept of the name of an exception's type.
pub const TYPE_NAME_BYTES: usize = 256;
/// The part of the stack below `rsp` that leaf functions may use.
pub const RED_ZONE: u64 = 128;

/// States of [`Crash::state`].
pub const CRASH_NONE: u32 = 0;
pub const CRASH_WRITING: u32 = 1;
pub const CRASH_COMPLETE: u32 = 2;

/// What the crash handler captured.
#[repr(C)]
pub struct Crash {
    pub state: u32,
    pub tid: u32,
    pub signal: i32,
    pub code: i32,
    pub fault_address: u64,
    /// rax rbx rcx rdx rsi rdi rbp rsp r8 … r15
    pub registers: [u64; 16],
    pub rip: u64,
    pub rflags: u64,
    /// Address of `stack[0]`: `rsp` less the red zone or, when that is not
    /// readable, the first readable address above it.
    pub stack_start: u64,
    pub stack_length: u32,
    pub maps_length: u32,
    pub maps_truncated: u32,
    /// Not zero: the capture made no system calls.
    pub sandboxed: u32,
    /// Not zero: the program's own handler ran after the capture.
    pub taken_over: u32,
    pub crash_padding: u32,
    /// What an aborting program said; each length is zero if it said nothing.
    pub message_length: u32,
    pub exception_type_length: u32,
    pub exception_text_length: u32,
    pub padding: u32,
    /// The C library's message: a failed assertion, a broken heap.
    pub message: [u8; WORDS_BYTES],
    /// The type of the C++ exception in flight, as the ABI spells it.
    pub exception_type: [u8; TYPE_NAME_BYTES],
    /// The text it was made with.
    pub exception_text: [u8; WORDS_BYTES],
    pub stack: [u8; STACK_BYTES],
    pub maps: [u8; MAPS_BYTES],
}
