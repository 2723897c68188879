//! The activation variables: found, and removed in place.
//!
//! The array that the C library hands to constructors is the one that `environ`
//! points to, so removing an entry there is enough for children to see the
//! environment that the user gave. (`/proc/self/environ` keeps the original
//! bytes.) The removed entries leave nulls between the environment and the
//! auxiliary vector; both loader and C library have read that vector by now.

use inprocess_layout::{ACTIVATION_VARIABLE, PRELOAD_WAS_VARIABLE};

/// The environment as a null-terminated array of strings.
#[derive(Clone, Copy)]
pub struct Environment(pub *mut *mut u8);

/// What the agent asked for.
pub struct Activation {
    pub fd: i32,
    pub nonce: u64,
}

impl Environment {
    /// The position and the value of a variable.
    fn find(self, name: &str) -> Option<(usize, *mut u8)> {
        if self.0.is_null() {
            return None;
        }
        let mut at = 0;
        loop {
            // SAFETY: the array is null-terminated and its strings are
            // zero-terminated; neither loop passes its terminator.
            unsafe {
                let entry = *self.0.add(at);
                if entry.is_null() {
                    return None;
                }
                let mut same = 0;
                while same < name.len() && *entry.add(same) == *name.as_ptr().add(same) {
                    same += 1;
                }
                if same == name.len() && *entry.add(same) == b'=' {
                    return Some((at, entry.add(same + 1)));
                }
            }
            at += 1;
        }
    }

    fn remove(self, mut at: usize) {
        loop {
            // SAFETY: `at` is at most the terminator's position when read.
            unsafe {
                let next = *self.0.add(at + 1);
                *self.0.add(at) = next;
                if next.is_null() {
                    return;
                }
            }
            at += 1;
        }
    }

    /// The activation, left where it is.
    pub fn activation(self) -> Option<Activation> {
        let (_, value) = self.find(ACTIVATION_VARIABLE)?;
        // SAFETY: the value is zero-terminated.
        unsafe { parse(value) }
    }

    /// Takes the activation out of the environment; `None` if there is none or
    /// it cannot be read.
    pub fn take_activation(self) -> Option<Activation> {
        let (at, value) = self.find(ACTIVATION_VARIABLE)?;
        // SAFETY: the value is zero-terminated.
        let parsed = unsafe { parse(value) };
        self.remove(at);
        parsed
    }

    /// Gives LD_PRELOAD back the value it had before the agent's change.
    pub fn restore_preload(self) {
        let was = self.find(PRELOAD_WAS_VARIABLE);
        let Some((at, now)) = self.find("LD_PRELOAD") else {
            return;
        };
        match was {
            None => self.remove(at),
            Some((was_at, mut from)) => {
                let mut to = now;
                // SAFETY: the value it had is shorter than the value it has,
                // which starts with our own path, so it fits in place.
                unsafe {
                    loop {
                        let byte = *from;
                        *to = byte;
                        if byte == 0 {
                            break;
                        }
                        from = from.add(1);
                        to = to.add(1);
                    }
                }
                self.remove(was_at);
            }
        }
    }
}

/// Reads `<fd>:<nonce in hex>`.
///
/// # Safety
/// `text` must be zero-terminated.
unsafe fn parse(mut text: *const u8) -> Option<Activation> {
    let mut fd: i32 = 0;
    let mut nonce: u64 = 0;
    let mut digits = 0;
    // SAFETY: both loops stop at the terminator at the latest.
    unsafe {
        while (*text).is_ascii_digit() && digits < 7 {
            fd = fd * 10 + (*text - b'0') as i32;
            text = text.add(1);
            digits += 1;
        }
        if digits == 0 || *text != b':' {
            return None;
        }
        text = text.add(1);
        digits = 0;
        loop {
            let value = match *text {
                0 => break,
                c @ b'0'..=b'9' => c - b'0',
                c @ b'a'..=b'f' => c - b'a' + 10,
                _ => return None,
            };
            nonce = nonce << 4 | value as u64;
            text = text.add(1);
            digits += 1;
            if digits > 16 {
                return None;
            }
        }
    }
    if digits != 16 {
        return None;
    }
    Some(Activation { fd, nonce })
}
