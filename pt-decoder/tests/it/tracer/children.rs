//! Traced processes: a thin and safe face of ptrace, and small programs
//! compiled on the spot.

use std::{
    ffi::CString,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, Instant},
};

/// How long a thread may stay in the kernel before another one is stepped.
const PATIENCE: Duration = Duration::from_millis(3);

/// What came of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// Stopped behind the step.
    Stepped,
    /// A signal waits to be delivered.
    Signal(i32),
    /// It made this thread.
    Cloned(i32),
    /// It is still in the kernel.
    Blocked,
    Ended(i32),
}

/// A compiled program.
pub fn compile(folder: &Path, name: &str, source: &str, arguments: &[&str]) -> PathBuf {
    let (compiler, arguments) = arguments.split_first().unwrap();
    let extension = if source.starts_with("# asm") {
        "s"
    } else {
        "c"
    };
    let file = folder.join(format!("{name}.{extension}"));
    let program = folder.join(name);
    std::fs::write(&file, source).unwrap();
    let compiled = Command::new(compiler)
        .args(arguments)
        .arg("-o")
        .args([&program, &file])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&compiled.stderr);
    assert!(compiled.status.success(), "{name}: {said}");
    program
}

/// Starts a program, stopped before its first instruction. It dies with us.
pub fn start(program: &Path) -> i32 {
    let path = CString::new(program.as_os_str().as_bytes()).unwrap();
    let null = CString::new("/dev/null").unwrap();
    // SAFETY: the child calls only async-signal-safe functions on values that
    // were made before, then executes another program or ends.
    let pid = unsafe { libc::fork() };
    assert!(pid >= 0);
    if pid == 0 {
        // SAFETY: see above; the arrays end with a null pointer.
        unsafe {
            libc::ptrace(libc::PTRACE_TRACEME, 0, 0, 0);
            libc::personality(libc::ADDR_NO_RANDOMIZE as u64);
            let out = libc::open(null.as_ptr(), libc::O_WRONLY);
            libc::dup2(out, 1);
            let arguments = [path.as_ptr(), std::ptr::null()];
            let environment = [std::ptr::null()];
            libc::execve(path.as_ptr(), arguments.as_ptr(), environment.as_ptr());
            libc::_exit(127);
        }
    }
    assert_eq!(wait(pid, true), Some(Stop::Signal(libc::SIGTRAP)));
    let options = libc::PTRACE_O_TRACECLONE | libc::PTRACE_O_EXITKILL;
    request(libc::PTRACE_SETOPTIONS, pid, 0, options as u64);
    pid
}

/// Ends a program that was started here.
pub fn end(pid: i32) {
    // SAFETY: a signal to our own child, which has not been waited for.
    unsafe { libc::kill(pid, libc::SIGKILL) };
}

pub fn request(what: u32, tid: i32, address: u64, data: u64) -> i64 {
    // SAFETY: none of the requests made through here writes to our memory.
    unsafe { libc::ptrace(what, tid, address, data) }
}

pub fn registers(tid: i32) -> libc::user_regs_struct {
    // SAFETY: plain numbers, for which zero is a value.
    let mut registers: libc::user_regs_struct = unsafe { std::mem::zeroed() };
    // SAFETY: the request fills exactly this structure.
    let done = unsafe { libc::ptrace(libc::PTRACE_GETREGS, tid, 0, &mut registers) };
    assert_eq!(done, 0, "registers of {tid}");
    registers
}

pub fn set_registers(tid: i32, registers: &libc::user_regs_struct) {
    // SAFETY: the request reads exactly this structure.
    let done = unsafe { libc::ptrace(libc::PTRACE_SETREGS, tid, 0, registers) };
    assert_eq!(done, 0);
}

/// Runs up to an address.
pub fn run_to(pid: i32, address: u64) {
    let original = request(libc::PTRACE_PEEKTEXT, pid, address, 0);
    let trap = original & !0xff | 0xcc;
    request(libc::PTRACE_POKETEXT, pid, address, trap as u64);
    request(libc::PTRACE_CONT, pid, 0, 0);
    assert_eq!(wait(pid, true), Some(Stop::Signal(libc::SIGTRAP)));
    request(libc::PTRACE_POKETEXT, pid, address, original as u64);
    let mut registers = registers(pid);
    assert_eq!(registers.rip, address + 1);
    registers.rip = address;
    set_registers(pid, &registers);
}

/// One instruction, or the delivery of a signal.
pub fn step(tid: i32, signal: i32) -> Stop {
    request(libc::PTRACE_SINGLESTEP, tid, 0, signal as u64);
    let since = Instant::now();
    loop {
        match wait(tid, false) {
            Some(Stop::Signal(libc::SIGTRAP)) => return Stop::Stepped,
            Some(stop) => return stop,
            None if since.elapsed() > PATIENCE => return Stop::Blocked,
            None => std::thread::yield_now(),
        }
    }
}

/// What a thread that was blocked has come to.
pub fn look_after(tid: i32) -> Stop {
    match wait(tid, false) {
        Some(Stop::Signal(libc::SIGTRAP)) => Stop::Stepped,
        Some(stop) => stop,
        None => Stop::Blocked,
    }
}

pub fn wait_for(tid: i32) -> Stop {
    wait(tid, true).unwrap()
}

fn wait(tid: i32, patient: bool) -> Option<Stop> {
    let mut status = 0;
    let options = libc::__WALL | if patient { 0 } else { libc::WNOHANG };
    // SAFETY: waits for our own child or its thread; writes the status only.
    let found = unsafe { libc::waitpid(tid, &mut status, options) };
    if found == 0 {
        return None;
    }
    // Gone with the rest of its process.
    if found < 0 || libc::WIFEXITED(status) {
        return Some(Stop::Ended(libc::WEXITSTATUS(status)));
    }
    if libc::WIFSIGNALED(status) {
        return Some(Stop::Ended(-libc::WTERMSIG(status)));
    }
    if status >> 16 == libc::PTRACE_EVENT_CLONE {
        let mut made: libc::c_ulong = 0;
        // SAFETY: the request writes one number of this type.
        unsafe { libc::ptrace(libc::PTRACE_GETEVENTMSG, tid, 0, &mut made) };
        return Some(Stop::Cloned(made as i32));
    }
    Some(Stop::Signal(libc::WSTOPSIG(status)))
}
