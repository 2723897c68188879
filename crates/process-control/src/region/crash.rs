//! The crash area: what the signal handler wrote before the process died.

use super::words::Words;
use inprocess_layout::{
    CRASH_COMPLETE, CRASH_NONE, Crash, MAPS_BYTES, Region, STACK_BYTES, TYPE_NAME_BYTES,
    WORDS_BYTES,
};
use sketch_model::{LastWords, ThrownException, Tid};
use std::mem::offset_of;

/// The first crashing thread, as captured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CrashCapture {
    /// False if the process died before the handler had finished.
    pub complete: bool,
    pub signal: i32,
    pub code: i32,
    pub tid: Tid,
    /// Only faults have one; a signal that somebody sent does not.
    pub fault_address: Option<u64>,
    /// rax rbx rcx rdx rsi rdi rbp rsp r8 … r15
    pub registers: [u64; 16],
    pub rip: u64,
    pub stack_start: u64,
    pub stack: Vec<u8>,
    pub maps: String,
    pub maps_truncated: bool,
    /// It was captured without system calls.
    pub sandboxed: bool,
    /// The program's own handler ran afterwards.
    pub taken_over: bool,
    /// What the program had said, if it aborted.
    pub said: Option<LastWords>,
}

impl CrashCapture {
    pub fn rsp(&self) -> u64 {
        self.registers[7]
    }

    pub fn rbp(&self) -> u64 {
        self.registers[6]
    }

    /// Eight captured bytes of the stack.
    pub fn stack_word(&self, address: u64) -> Option<u64> {
        let at = usize::try_from(address.checked_sub(self.stack_start)?).ok()?;
        let bytes = self.stack.get(at..)?.first_chunk::<8>()?;
        Some(u64::from_le_bytes(*bytes))
    }

    /// The capture in a region's bytes, if a handler ran.
    pub(super) fn read(words: Words<'_>) -> Option<CrashCapture> {
        let base = offset_of!(Region, crash);
        let state = words.u32(base + offset_of!(Crash, state));
        if state == CRASH_NONE {
            return None;
        }
        let code = words.i32(base + offset_of!(Crash, code));
        let signal = words.i32(base + offset_of!(Crash, signal));
        let mut registers = [0; 16];
        for (at, register) in registers.iter_mut().enumerate() {
            *register = words.u64(base + offset_of!(Crash, registers) + 8 * at);
        }
        let maps = words.bytes(
            base + offset_of!(Crash, maps),
            words.u32(base + offset_of!(Crash, maps_length)),
            MAPS_BYTES,
        );
        let stack = words.bytes(
            base + offset_of!(Crash, stack),
            words.u32(base + offset_of!(Crash, stack_length)),
            STACK_BYTES,
        );
        Some(CrashCapture {
            complete: state == CRASH_COMPLETE,
            signal,
            code,
            tid: Tid(words.i32(base + offset_of!(Crash, tid))),
            fault_address: has_address(signal, code)
                .then(|| words.u64(base + offset_of!(Crash, fault_address))),
            registers,
            rip: words.u64(base + offset_of!(Crash, rip)),
            stack_start: words.u64(base + offset_of!(Crash, stack_start)),
            stack: stack.to_vec(),
            maps: String::from_utf8_lossy(maps).into_owned(),
            maps_truncated: words.u32(base + offset_of!(Crash, maps_truncated)) != 0,
            sandboxed: words.u32(base + offset_of!(Crash, sandboxed)) != 0,
            taken_over: words.u32(base + offset_of!(Crash, taken_over)) != 0,
            said: last_words(words, base),
        })
    }
}

fn last_words(words: Words<'_>, base: usize) -> Option<LastWords> {
    let text = |at: usize, length: usize, capacity: usize| {
        let length = words.u32(base + length);
        let bytes = words.bytes(base + at, length, capacity);
        (!bytes.is_empty()).then(|| String::from_utf8_lossy(bytes).into_owned())
    };
    let type_name = text(
        offset_of!(Crash, exception_type),
        offset_of!(Crash, exception_type_length),
        TYPE_NAME_BYTES,
    );
    let said = LastWords {
        message: text(
            offset_of!(Crash, message),
            offset_of!(Crash, message_length),
            WORDS_BYTES,
        ),
        exception: type_name.map(|type_name| ThrownException {
            type_name,
            text: text(
                offset_of!(Crash, exception_text),
                offset_of!(Crash, exception_text_length),
                WORDS_BYTES,
            ),
        }),
    };
    (said != LastWords::default()).then_some(said)
}

/// Whether `siginfo_t` carries the address of an access or instruction: faults
/// do, except those that the kernel cannot place (a non-canonical address).
fn has_address(signal: i32, code: i32) -> bool {
    const SI_KERNEL: i32 = 0x80;
    let fault = matches!(
        signal,
        libc::SIGSEGV | libc::SIGBUS | libc::SIGILL | libc::SIGFPE
    );
    fault && code > 0 && code != SI_KERNEL
}
