//! A terminal and its shell see the same of a command with and without the agent.

use crate::common::{AGENT, Workshop};
use std::{
    fs::File,
    io::{Read, Write},
    mem::MaybeUninit,
    os::fd::{FromRawFd, OwnedFd},
    process::{Command, Stdio},
    ptr,
};

/// What is done at the keyboard once the program is ready.
#[derive(Clone, Copy)]
enum Then {
    Nothing,
    Type(&'static [u8]),
    Resize,
}

/// Both ends of a new terminal.
fn terminal(rows: u16, columns: u16) -> (File, OwnedFd) {
    let size = libc::winsize {
        ws_row: rows,
        ws_col: columns,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    let (mut master, mut slave) = (-1, -1);
    // SAFETY: two descriptors are written, the size is whole, no name is wanted.
    unsafe {
        let made = libc::openpty(
            &raw mut master,
            &raw mut slave,
            ptr::null_mut(),
            ptr::null_mut(),
            (&raw const size).cast_mut(),
        );
        assert_eq!(made, 0);
        libc::fcntl(master, libc::F_SETFD, libc::FD_CLOEXEC);
        libc::fcntl(slave, libc::F_SETFD, libc::FD_CLOEXEC);
        // What is typed would appear among what is said, now here, now there.
        let mut settings = MaybeUninit::<libc::termios>::uninit();
        assert_eq!(libc::tcgetattr(slave, settings.as_mut_ptr()), 0);
        let mut settings = settings.assume_init();
        settings.c_lflag &= !libc::ECHO;
        assert_eq!(
            libc::tcsetattr(slave, libc::TCSANOW, &raw const settings),
            0
        );
        (File::from_raw_fd(master), OwnedFd::from_raw_fd(slave))
    }
}

fn resize(master: &File, rows: u16, columns: u16) {
    use std::os::fd::AsRawFd;
    let size = libc::winsize {
        ws_row: rows,
        ws_col: columns,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    // SAFETY: the size is whole.
    let done = unsafe { libc::ioctl(master.as_raw_fd(), libc::TIOCSWINSZ, &raw const size) };
    assert_eq!(done, 0);
}

/// Everything that appears on the terminal of a shell that runs the command.
fn transcript(workshop: &Workshop, ground: &str, command: &[&str], then: Then) -> String {
    let (mut master, slave) = terminal(33, 77);
    let clone = || Stdio::from(slave.try_clone().expect("a descriptor"));
    let mut shell = Command::new(workshop.path("jobshell"))
        .arg(ground)
        .args(command)
        .stdin(clone())
        .stdout(clone())
        .stderr(clone())
        .spawn()
        .expect("starts");
    drop(slave);
    let mut seen = Vec::new();
    let mut acted = false;
    let mut piece = [0; 1000];
    // Ends when the last process that has the terminal has closed it.
    while let Ok(got @ 1..) = master.read(&mut piece) {
        seen.extend_from_slice(&piece[..got]);
        if !acted && String::from_utf8_lossy(&seen).contains("ready\r\n") {
            acted = true;
            match then {
                Then::Nothing => {}
                Then::Type(keys) => master.write_all(keys).expect("typed"),
                Then::Resize => resize(&master, 50, 120),
            }
        }
    }
    shell.wait().expect("ends");
    String::from_utf8_lossy(&seen).replace('\r', "")
}

#[test]
fn a_shell_sees_the_same_with_and_without_the_agent() {
    let workshop = Workshop::new();
    workshop.compile("jobshell", "jobshell", &[]);
    let program = workshop.compile("terminal", "terminal", &[]);
    let program = program.to_str().expect("text");
    let (cache, record) = (workshop.path("cache"), workshop.path("record.json"));
    let agent = [
        AGENT,
        "run",
        "--config",
        "/dev/null",
        "--cache",
        cache.to_str().expect("text"),
        "--store-record",
        record.to_str().expect("text"),
        "--",
    ];
    use Then::{Nothing, Resize, Type};
    let (front, back) = ("foreground", "background");
    let table = [
        (front, "look", Nothing, "33 rows, 77 columns"),
        (back, "look", Nothing, "in the foreground 0"),
        (
            front,
            "resize",
            Resize,
            "told 1 times\nafter: 50 rows, 120 columns",
        ),
        (
            front,
            "read",
            Type(b"one\ntwo\n\x04"),
            "read two\nend of input\n[exit 5]",
        ),
        // Reading in the background stops the job; the shell brings it back.
        (back, "read", Type(b"one\n\x04"), "[stopped by 21]"),
        (front, "wait", Type(b"\x03"), "[killed by 2]"),
        (front, "wait", Type(b"\x1c"), "[killed by 3]"),
        (
            front,
            "interrupted",
            Type(b"\x03"),
            "interrupted 1 times\n[exit 9]",
        ),
        (
            front,
            "orderly",
            Type(b"\x1a"),
            "in order\n[stopped by 20]\nback\n[exit 7]",
        ),
        (
            front,
            "unstoppable",
            Type(b"\x1a"),
            "asked 1 times\n[exit 8]",
        ),
        (
            front,
            "stop-by 19",
            Nothing,
            "[stopped by 19]\nwent on\n[exit 6]",
        ),
        (
            front,
            "stop-by 20",
            Nothing,
            "[stopped by 20]\nwent on\n[exit 6]",
        ),
        (
            front,
            "stop-by 22",
            Nothing,
            "[stopped by 22]\nwent on\n[exit 6]",
        ),
        (
            back,
            "stop-by 21",
            Nothing,
            "[stopped by 21]\nwent on\n[exit 6]",
        ),
    ];
    for (ground, words, then, expected) in table {
        let arguments: Vec<&str> = words.split(' ').collect();
        let bare = [&[program], &arguments[..]].concat();
        let bare = transcript(&workshop, ground, &bare, then);
        assert!(bare.contains(expected), "{arguments:?} bare:\n{bare}");
        let behind = [&agent[..], &[program], &arguments[..]].concat();
        let behind = transcript(&workshop, ground, &behind, then);
        assert_eq!(behind, bare, "{ground} {arguments:?}");
    }
}

#[test]
#[allow(clippy::zombie_processes)] // waitpid waits, and tells more
fn whoever_continues_the_agent_continues_the_command() {
    let workshop = Workshop::new();
    let program = workshop.compile("terminal", "terminal", &[]);
    let child = workshop
        .agent()
        .arg("--")
        .arg(&program)
        .args(["stop-by", "19"])
        .stdout(Stdio::null())
        .spawn()
        .expect("starts");
    let pid = child.id() as i32;
    let mut status = 0;
    // SAFETY: waits for our own child and signals it; the status is written.
    unsafe {
        assert_eq!(libc::waitpid(pid, &raw mut status, libc::WUNTRACED), pid);
        assert!(libc::WIFSTOPPED(status) && libc::WSTOPSIG(status) == libc::SIGSTOP);
        libc::kill(pid, libc::SIGCONT);
        assert_eq!(libc::waitpid(pid, &raw mut status, 0), pid);
    }
    assert!(libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 6);
}
