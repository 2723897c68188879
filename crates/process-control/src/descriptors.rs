//! Waiting for descriptors, and receiving them from the runtime.

use std::{
    io,
    mem::{size_of, zeroed},
    os::{
        fd::{AsRawFd, FromRawFd, OwnedFd, RawFd},
        unix::net::UnixStream,
    },
};

/// An entry for [`poll`]; a negative descriptor is ignored.
pub fn readable(fd: RawFd) -> libc::pollfd {
    libc::pollfd {
        fd,
        events: libc::POLLIN,
        revents: 0,
    }
}

/// Waits until one is ready or `milliseconds` have passed; -1 for no limit.
pub fn poll(entries: &mut [libc::pollfd], milliseconds: i32) -> io::Result<()> {
    loop {
        // SAFETY: the entries are as many as said.
        let ready = unsafe {
            libc::poll(
                entries.as_mut_ptr(),
                entries.len() as libc::nfds_t,
                milliseconds,
            )
        };
        if ready >= 0 {
            return Ok(());
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
}

/// The most descriptors that one message may bring.
const MOST: usize = 16;

/// One message of four bytes with the descriptors that came along; `None` in
/// place of the number when the other side has closed.
pub fn receive(socket: &UnixStream) -> io::Result<(Option<u32>, Vec<OwnedFd>)> {
    let mut payload = [0u8; 4];
    let mut vector = libc::iovec {
        iov_base: payload.as_mut_ptr().cast(),
        iov_len: payload.len(),
    };
    // Aligned as a cmsghdr must be.
    let mut control = [0u64; 4 + MOST * size_of::<RawFd>() / 8];
    // SAFETY: zero bytes are a valid msghdr.
    let mut message: libc::msghdr = unsafe { zeroed() };
    message.msg_iov = &raw mut vector;
    message.msg_iovlen = 1;
    message.msg_control = control.as_mut_ptr().cast();
    message.msg_controllen = size_of_val(&control);
    // SAFETY: the message describes buffers that outlive the call.
    let got = unsafe {
        libc::recvmsg(
            socket.as_raw_fd(),
            &raw mut message,
            libc::MSG_CMSG_CLOEXEC | libc::MSG_WAITALL,
        )
    };
    if got < 0 {
        return Err(io::Error::last_os_error());
    }
    let mut fds = Vec::new();
    // SAFETY: the kernel has filled the control buffer with whole headers; the
    // macros stay within msg_controllen; each descriptor is new and ours.
    unsafe {
        let mut header = libc::CMSG_FIRSTHDR(&raw const message);
        while !header.is_null() {
            if (*header).cmsg_level == libc::SOL_SOCKET && (*header).cmsg_type == libc::SCM_RIGHTS {
                let data = libc::CMSG_DATA(header);
                let bytes = (*header).cmsg_len - (data as usize - header as usize);
                for at in 0..bytes / size_of::<RawFd>() {
                    let fd = data.cast::<RawFd>().add(at).read_unaligned();
                    fds.push(OwnedFd::from_raw_fd(fd));
                }
            }
            header = libc::CMSG_NXTHDR(&raw const message, header);
        }
    }
    let number = (got as usize == payload.len()).then(|| u32::from_le_bytes(payload));
    Ok((number, fds))
}
