//! HTTP over the daemon's socket: the little of it that `run` and daemon need.
//!
//! One question and one answer a connection, each with a length. The socket is a file that
//! only its owner's group may open, so the daemon trusts whoever reaches it as much as the
//! operator's file rights do; it still reads nothing longer than it expects. `ureq` speaks to
//! networks alone.

use std::{
    io::{self, BufRead, BufReader, Read, Write},
    os::unix::net::UnixStream,
    path::Path,
    time::Duration,
};

/// First line and headers: the longest path of a file fits.
const LONGEST_HEAD: u64 = 16 << 10;

/// Sends a question or an answer, by its first line.
pub fn send(to: &mut impl Write, first: &str, body: &[u8]) -> io::Result<()> {
    let length = body.len();
    let head = format!("{first}\r\ncontent-length: {length}\r\n\r\n");
    to.write_all(head.as_bytes())?;
    to.write_all(body)?;
    to.flush()
}

/// The next question or answer: its first line and body. `None` when the other side has
/// closed before one.
pub fn receive(from: &mut impl BufRead, longest: u64) -> io::Result<Option<(String, Vec<u8>)>> {
    let mut head = from.take(LONGEST_HEAD);
    let Some(first) = line(&mut head)? else {
        return Ok(None);
    };
    let mut length = 0;
    loop {
        let header = line(&mut head)?.ok_or(io::ErrorKind::UnexpectedEof)?;
        if header.is_empty() {
            break;
        }
        if let Some((name, value)) = header.split_once(':')
            && name.eq_ignore_ascii_case("content-length")
        {
            length = value.trim().parse().map_err(io::Error::other)?;
        }
    }
    if length > longest {
        let said = format!("a message of {length} bytes is too long");
        return Err(io::Error::other(said));
    }
    // Grows with what arrives, not with what was announced.
    let mut body = Vec::new();
    from.take(length).read_to_end(&mut body)?;
    if body.len() as u64 != length {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(Some((first, body)))
}

/// A line without its end; `None` at the end of everything.
fn line(from: &mut impl BufRead) -> io::Result<Option<String>> {
    let mut line = String::new();
    match (from.read_line(&mut line)?, line.strip_suffix('\n')) {
        (0, _) => Ok(None),
        (_, Some(whole)) => Ok(Some(whole.trim_end_matches('\r').to_owned())),
        (_, None) => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}

/// Asks the daemon at a socket; what it answers, and with which status.
pub fn ask(
    socket: &Path,
    question: &str,
    body: &[u8],
    limit: Duration,
    longest: u64,
) -> io::Result<(u16, Vec<u8>)> {
    let mut stream = UnixStream::connect(socket)?;
    stream.set_read_timeout(Some(limit))?;
    stream.set_write_timeout(Some(limit))?;
    let first = format!("{question} HTTP/1.1\r\nhost: localhost");
    send(&mut stream, &first, body)?;
    let answer = receive(&mut BufReader::new(stream), longest)?;
    let (first, body) = answer.ok_or(io::ErrorKind::UnexpectedEof)?;
    let status = first.split(' ').nth(1).and_then(|word| word.parse().ok());
    Ok((status.ok_or(io::ErrorKind::InvalidData)?, body))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_message_comes_back_and_a_torn_one_does_not(body in prop::collection::vec(any::<u8>(), 0..50), cut in 1usize..120) {
            let mut bytes = Vec::new();
            let first = "POST /api/v1/runs HTTP/1.1";
            send(&mut bytes, first, &body).expect("memory takes it");
            let whole = receive(&mut bytes.as_slice(), 50).expect("is whole");
            prop_assert_eq!(whole, Some((first.to_owned(), body)));
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
            let announced = [b"POST / HTTP/1.1\r\nContent-Length: ", bytes.as_slice()].concat();
            let _ = receive(&mut announced.as_slice(), 20);
        }
    }

    #[test]
    fn what_is_too_long_is_refused_before_it_is_read() {
        let mut bytes = Vec::new();
        send(&mut bytes, "POST /", &[7; 21]).expect("memory takes it");
        let refused = receive(&mut bytes.as_slice(), 20).expect_err("is too long");
        assert_eq!(refused.to_string(), "a message of 21 bytes is too long");
        let endless = vec![b'a'; 1 << 20];
        assert!(receive(&mut endless.as_slice(), 20).is_err());
    }
}
