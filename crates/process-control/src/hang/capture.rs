//! The registers, stacks and waits of all threads of a process that hangs.
//!
//! Threads are seized, not attached: no signal is sent, an interrupted futex
//! wait goes on afterwards by itself, and if the agent dies meanwhile the kernel
//! lets the program go on. Each thread is stopped, read and released by itself
//! (`stopped_thread.rs`), because a process whose threads all wait for each other
//! does not change.

use super::progress::{Look, Waiting};
use super::stopped_thread::{StoppedThread, on_a_tracing_thread};
use crate::region::CrashCapture;
use sketch_model::{Gap, Pid, Tid};
use std::{
    fs, io,
    time::{Duration, Instant},
};

/// As much of each stack as is kept of a crash.
const STACK: usize = inprocess_layout::STACK_BYTES;
/// More threads than this are counted, not captured.
const MOST_THREADS: usize = 64;
/// A thread that waits in a system call stops at once.
const PATIENCE: Duration = Duration::from_millis(500);
/// All threads together; one that would not stop may stand still until then.
const PATIENCE_FOR_ALL: Duration = Duration::from_secs(2);

/// One thread, captured in the form that unwinding takes.
#[derive(Debug)]
pub struct HungThread {
    pub capture: CrashCapture,
    pub waits_for: String,
}

/// A process that hangs, as it was found.
#[derive(Debug, Default)]
pub struct Hang {
    /// Threads that wait for a mutex come first: the others wait for them.
    pub threads: Vec<HungThread>,
    pub gaps: Vec<Gap>,
}

impl Hang {
    /// A hang of which no more is known than that it is one.
    pub fn not_described(defect: Gap) -> Hang {
        Hang {
            threads: Vec::new(),
            gaps: vec![defect],
        }
    }
}

/// Captures the threads of a look. When it returns, all of them go on.
pub fn capture(pid: Pid, look: &Look) -> Hang {
    on_a_tracing_thread(|| capture_here(pid, look)).unwrap_or_else(|_| Hang {
        threads: Vec::new(),
        gaps: vec![Gap::ThreadsNotCaptured {
            captured: 0,
            all: look.len() as u64,
        }],
    })
}

fn capture_here(pid: Pid, look: &Look) -> Hang {
    let until = Instant::now() + PATIENCE_FOR_ALL;
    let mut hang = Hang::default();
    if look.len() > MOST_THREADS {
        hang.gaps.push(Gap::ThreadsNotCaptured {
            captured: MOST_THREADS as u64,
            all: look.len() as u64,
        });
    }
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).unwrap_or_default();
    let mut found: Vec<(bool, HungThread)> = Vec::new();
    for (tid, seen) in look.iter().take(MOST_THREADS) {
        let (for_a_mutex, waits_for) = wait_in_words(pid, *tid, &seen.waiting, look);
        match thread(pid, *tid, &maps, until) {
            Ok(capture) => found.push((for_a_mutex, HungThread { capture, waits_for })),
            Err(error) => hang.gaps.push(Gap::ThreadNotCaptured {
                tid: tid.0,
                because: error.to_string(),
            }),
        }
    }
    found.sort_by_key(|(for_a_mutex, thread)| (!for_a_mutex, thread.capture.tid));
    hang.threads = found.into_iter().map(|(_, thread)| thread).collect();
    hang
}

/// What a thread waits for, and whether it is a mutex. The C library keeps a
/// mutex's owner eight bytes behind the word that is waited on; a number there
/// that is another thread of this process is taken for it.
fn wait_in_words(pid: Pid, tid: Tid, waiting: &Waiting, look: &Look) -> (bool, String) {
    match waiting {
        Waiting::ForAThread { futex } => {
            let mut owner = [0; 4];
            let read = read_memory(pid, futex.wrapping_add(8), &mut owner);
            let owner = Tid(i32::from_le_bytes(owner));
            if read == 4 && owner != tid && look.contains_key(&owner) {
                (
                    true,
                    format!("the mutex at {futex:#x}, which thread {owner} holds"),
                )
            } else {
                (false, format!("another thread to wake it at {futex:#x}"))
            }
        }
        Waiting::InACall(number) => (false, format!("system call {number} to return")),
        Waiting::Unknown => (false, "nothing that could be seen".into()),
    }
}

fn thread(pid: Pid, tid: Tid, maps: &str, until: Instant) -> io::Result<CrashCapture> {
    let stopped = StoppedThread::stop(tid, until.min(Instant::now() + PATIENCE))?;
    let registers = stopped.registers()?;
    let mut stack = vec![0; STACK];
    let length = read_memory(pid, registers.rsp, &mut stack);
    stack.truncate(length);
    Ok(CrashCapture {
        complete: true,
        signal: 0,
        code: 0,
        tid,
        fault_address: None,
        registers: [
            registers.rax,
            registers.rbx,
            registers.rcx,
            registers.rdx,
            registers.rsi,
            registers.rdi,
            registers.rbp,
            registers.rsp,
            registers.r8,
            registers.r9,
            registers.r10,
            registers.r11,
            registers.r12,
            registers.r13,
            registers.r14,
            registers.r15,
        ],
        rip: registers.rip,
        stack_start: registers.rsp,
        stack,
        maps: maps.to_owned(),
        maps_truncated: false,
        said: None,
        sandboxed: false,
        taken_over: false,
    })
}

/// Reads upward from `address` until the buffer is full or the mapping ends.
fn read_memory(pid: Pid, address: u64, buffer: &mut [u8]) -> usize {
    const PAGE: u64 = 4096;
    let mut done = 0;
    while done < buffer.len() {
        let at = address.wrapping_add(done as u64);
        // A read that crosses into unmapped memory fails as a whole.
        let to_the_page_end = (PAGE - at % PAGE) as usize;
        let length = to_the_page_end.min(buffer.len() - done);
        let local = libc::iovec {
            iov_base: buffer[done..].as_mut_ptr().cast(),
            iov_len: length,
        };
        let remote = libc::iovec {
            iov_base: at as *mut libc::c_void,
            iov_len: length,
        };
        // SAFETY: the local buffer has that length; the remote address is only
        // read, by the kernel, which checks it.
        let got =
            unsafe { libc::process_vm_readv(pid.0, &raw const local, 1, &raw const remote, 1, 0) };
        if got <= 0 {
            break;
        }
        done += got as usize;
    }
    done
}
