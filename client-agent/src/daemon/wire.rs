//! What `run` and the daemon say to each other over the local socket.
//!
//! One message is a kind, a length and that many bytes; a question gets one
//! answer. The socket is a file that only its owner's group may open, so the
//! daemon trusts whoever reaches it as much as the operator's file rights do;
//! it still reads nothing longer than the kind of message can need.

use std::io::{self, Read, Write};

/// Longest question: a run record.
pub const LONGEST_QUESTION: u32 = 64 << 20;
/// Longest answer: a patch.
pub const LONGEST_ANSWER: u32 = 1 << 30;

macro_rules! kinds {
    ($($(#[$doc:meta])* $name:ident = $byte:literal),* $(,)?) => {
        /// What a message is.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Kind { $($(#[$doc])* $name),* }

        impl Kind {
            fn byte(self) -> u8 {
                match self { $(Kind::$name => $byte),* }
            }

            fn of(byte: u8) -> Option<Kind> {
                match byte { $($byte => Some(Kind::$name),)* _ => None }
            }
        }
    };
}

kinds! {
    /// Question: an assignment request. Answer: an assignment.
    Assignment = b'A',
    /// Question: a variant. Answer: its signed patch.
    Patch = b'P',
    /// Question: a path. Answer: the policy for that program.
    Policy = b'Y',
    /// Question: nothing. Answer: the secret that values are disguised by.
    Secret = b'S',
    /// Question: the record of a successful run. Answer: nothing, once it is safe.
    Success = b'R',
    /// Question: the record of a failing run. Answer: nothing, once it is safe.
    Failure = b'F',
    /// Answer only: why not, in words.
    Refused = b'E',
}

pub fn send(to: &mut impl Write, kind: Kind, body: &[u8]) -> io::Result<()> {
    let length = u32::try_from(body.len()).map_err(io::Error::other)?;
    let mut head = [kind.byte(), 0, 0, 0, 0];
    head[1..].copy_from_slice(&length.to_le_bytes());
    to.write_all(&head)?;
    to.write_all(body)?;
    to.flush()
}

/// The next message; `None` when the other side has closed between two.
pub fn receive(from: &mut impl Read, longest: u32) -> io::Result<Option<(Kind, Vec<u8>)>> {
    let mut kind = [0];
    if from.read(&mut kind)? == 0 {
        return Ok(None);
    }
    let kind = Kind::of(kind[0]).ok_or_else(|| io::Error::other("a message of unknown kind"))?;
    let mut length = [0; 4];
    from.read_exact(&mut length)?;
    let length = u32::from_le_bytes(length);
    if length > longest {
        return Err(io::Error::other(format!(
            "a message of {length} bytes is too long"
        )));
    }
    // Grows with what arrives, not with what was announced.
    let mut body = Vec::new();
    from.take(u64::from(length)).read_to_end(&mut body)?;
    if body.len() != length as usize {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(Some((kind, body)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_message_comes_back_and_a_torn_one_does_not(body in prop::collection::vec(any::<u8>(), 0..50), cut in 1usize..55) {
            let mut bytes = Vec::new();
            send(&mut bytes, Kind::Success, &body).expect("memory takes it");
            let whole = receive(&mut bytes.as_slice(), 50).expect("is whole");
            prop_assert_eq!(whole, Some((Kind::Success, body)));
            let torn = &bytes[..bytes.len().saturating_sub(cut)];
            let read = receive(&mut &*torn, 50);
            match torn.is_empty() {
                true => prop_assert!(read.expect("closed").is_none()),
                false => prop_assert!(read.is_err()),
            }
        }

        #[test]
        fn any_bytes_are_read_without_panic(bytes in prop::collection::vec(any::<u8>(), 0..40)) {
            let _ = receive(&mut bytes.as_slice(), 20);
        }
    }
}
