//! The conversation in which the agent gets the watchpoints, once, before `main`.

use inprocess_base::sys;
use inprocess_layout::{
    CALL_AGENT, CALL_REPLY, CALL_SENDMSG, Header, LAST_MESSAGE, REPLY_READY, WATCH_SLOTS,
};

const MOST_PATIENCE_MS: usize = 5000;
/// Our descriptors are moved up here, so that the program's own get the numbers
/// they would have without us.
const LOWEST_DESCRIPTOR: usize = 512;
/// Descriptors in one message: the slots of one processor.
const MOST_SENT: usize = WATCH_SLOTS;

/// What was refused, and with which error.
pub struct Refusal {
    /// One of the `CALL_` constants.
    pub call: u32,
    /// As the kernel returns it; zero if it was not the kernel that refused.
    pub result: isize,
}

impl Refusal {
    pub fn of(call: u32) -> Refusal {
        Refusal { call, result: 0 }
    }
}

pub fn at_most(value: usize, limit: usize) -> usize {
    if value < limit { value } else { limit }
}

/// The descriptor's new number, if there is one up there.
#[inline(never)]
pub fn moved_up(fd: i32) -> i32 {
    let moved = sys::fcntl(fd, sys::F_DUPFD_CLOEXEC, LOWEST_DESCRIPTOR);
    if moved < 0 {
        return fd;
    }
    sys::close(fd);
    moved as i32
}

/// Says that this was all, and waits for the answer.
///
/// # Safety
/// `header` must be the active region's.
#[inline(never)]
pub unsafe fn conclude(header: *mut Header) -> Result<(), Refusal> {
    // SAFETY: the caller's promise.
    unsafe {
        let socket = (*header).socket;
        send(socket, LAST_MESSAGE, core::ptr::null(), 0)?;
        let patience = at_most((*header).reply_patience_ms as usize, MOST_PATIENCE_MS);
        let ready = sys::poll_readable(socket, patience);
        let mut reply = 0u8;
        if ready <= 0 || sys::read(socket, &raw mut reply, 1) != 1 {
            return Err(Refusal {
                call: CALL_REPLY,
                result: ready,
            });
        }
        if reply != REPLY_READY {
            return Err(Refusal::of(CALL_AGENT));
        }
        Ok(())
    }
}

/// Sends a number and descriptors (`unix(7)`, SCM_RIGHTS).
///
/// # Safety
/// `fds` must hold `count` descriptors, at most MOST_SENT.
#[inline(never)]
pub unsafe fn send(socket: i32, number: u32, fds: *const i32, count: usize) -> Result<(), Refusal> {
    #[repr(C)]
    struct Control {
        length: usize,
        level: i32,
        kind: i32,
        fds: [i32; MOST_SENT],
    }
    #[repr(C)]
    struct Message {
        name: usize,
        name_length: u64,
        vectors: usize,
        vector_count: usize,
        control: usize,
        control_length: usize,
        flags: u64,
    }
    const SOL_SOCKET: i32 = 1;
    const SCM_RIGHTS: i32 = 1;
    const CONTROL_HEADER: usize = 16;

    let payload = number;
    let vector = [&raw const payload as usize, 4];
    let mut control = Control {
        length: CONTROL_HEADER + 4 * count,
        level: SOL_SOCKET,
        kind: SCM_RIGHTS,
        fds: [-1; MOST_SENT],
    };
    // SAFETY: the caller promises `count` descriptors and the bound.
    let result = unsafe {
        let into = (&raw mut control.fds).cast::<i32>();
        let mut at = 0;
        while at < count {
            into.add(at).write(fds.add(at).read());
            at += 1;
        }
        let message = Message {
            name: 0,
            name_length: 0,
            vectors: &raw const vector as usize,
            vector_count: 1,
            control: if count > 0 {
                &raw const control as usize
            } else {
                0
            },
            control_length: if count > 0 {
                (CONTROL_HEADER + 4 * count).next_multiple_of(8)
            } else {
                0
            },
            flags: 0,
        };
        sys::sendmsg(socket, (&raw const message).cast())
    };
    if result < 0 {
        return Err(Refusal {
            call: CALL_SENDMSG,
            result,
        });
    }
    Ok(())
}
