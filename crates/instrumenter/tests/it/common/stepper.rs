//! Steps a program that has nothing of ours in it, and tells which line followed
//! which within a function.
//!
//! ptrace(2): one thread, from `main` on, an instruction at a time; addresses
//! become lines by binutils' addr2line. Returning from a call is no step from
//! line to line, and code without a line is stepped through.

use object::{Object, ObjectSymbol};
use runtime::layout::ACTIVATION_VARIABLE;
use std::collections::BTreeMap;
use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::{fs, io, ptr};

const MOST_STEPS: usize = 200_000;

/// Compiles `source` without optimisation, steps it, and returns from which line
/// control went to which other line of the same function, in order.
pub fn lines(source: &str, arguments: &[&str]) -> Vec<(u32, u32)> {
    let folder = tempfile::tempdir().unwrap();
    let (text, program) = (folder.path().join("p.c"), folder.path().join("p"));
    fs::write(&text, source).unwrap();
    let compiled = Command::new("clang-19")
        .args(["-g", "-O0", "-fno-pie", "-no-pie", "-o"])
        .arg(&program)
        .arg(&text)
        .status()
        .expect("clang-19 runs");
    assert!(compiled.success());
    let bytes = fs::read(&program).unwrap();
    let file = object::File::parse(&*bytes).unwrap();
    let functions: BTreeMap<u64, u64> = file
        .symbols()
        .filter(|s| s.kind() == object::SymbolKind::Text && s.size() > 0)
        .map(|s| (s.address(), s.size()))
        .collect();
    let main = file.symbols().find(|s| s.name() == Ok("main")).unwrap();
    let steps = step(&program.to_string_lossy(), arguments, main.address());
    let mut unique: Vec<u64> = steps.iter().map(|(pc, _)| *pc).collect();
    unique.sort_unstable();
    unique.dedup();
    let text: Vec<String> = unique.iter().map(|pc| format!("{pc:#x}")).collect();
    let output = Command::new("addr2line")
        .arg("-e")
        .arg(&program)
        .args(&text)
        .output()
        .expect("addr2line is installed");
    let output = String::from_utf8_lossy(&output.stdout).into_owned();
    let lines: BTreeMap<u64, u32> = unique
        .iter()
        .copied()
        .zip(output.lines().map(|line| {
            let number = line.rsplit(':').next().unwrap_or_default();
            let number = number.split_whitespace().next().unwrap_or_default();
            number.parse().unwrap_or(0)
        }))
        .collect();
    let function = |pc: u64| {
        let (start, size) = functions.range(..=pc).next_back()?;
        (pc < start + size).then_some(*start)
    };
    let mut from_to = Vec::new();
    // By frame: the stack pointer at its entry is not needed, functions do not recur.
    let mut last: BTreeMap<u64, u32> = BTreeMap::new();
    for (pc, _) in &steps {
        let Some(start) = function(*pc) else { continue };
        let line = lines[pc];
        if line == 0 {
            continue;
        }
        if *pc == start {
            last.remove(&start);
        }
        let before = last.insert(start, line);
        if let Some(before) = before.filter(|before| *before != line) {
            from_to.push((before, line));
        }
    }
    from_to
}

/// The program counters from `main` to the end, with the stack pointer.
fn step(program: &str, arguments: &[&str], main: u64) -> Vec<(u64, u64)> {
    let mut command = Command::new(program);
    command.args(arguments);
    // SAFETY: the child makes one system call before it executes the program.
    let child = unsafe {
        command
            .pre_exec(|| match libc::ptrace(libc::PTRACE_TRACEME, 0, 0, 0) {
                0 => Ok(()),
                _ => Err(io::Error::last_os_error()),
            })
            .spawn()
            .expect("the program can be started")
    };
    let pid = child.id() as i32;
    let wait = || {
        let mut status = 0;
        // SAFETY: waits for a child of ours.
        let got = unsafe { libc::waitpid(pid, &mut status, 0) };
        assert_eq!(got, pid);
        status
    };
    let request = |request: u32, address: u64, data: u64| {
        // SAFETY: the tracee is stopped; requests with memory of ours are not made.
        let answer = unsafe { libc::ptrace(request, pid, address, data) };
        assert_ne!(
            answer,
            -1,
            "ptrace({request}): {}",
            io::Error::last_os_error()
        );
        answer
    };
    let registers = || {
        // SAFETY: zeros are registers, and ptrace fills them in.
        unsafe {
            let mut registers: libc::user_regs_struct = std::mem::zeroed();
            let answer = libc::ptrace(
                libc::PTRACE_GETREGS,
                pid,
                ptr::null_mut::<libc::c_void>(),
                &raw mut registers,
            );
            assert_eq!(answer, 0);
            registers
        }
    };
    assert!(libc::WIFSTOPPED(wait()));
    let word = request(libc::PTRACE_PEEKTEXT, main, 0) as u64;
    request(libc::PTRACE_POKETEXT, main, (word & !0xff) | 0xcc);
    request(libc::PTRACE_CONT, 0, 0);
    assert!(libc::WIFSTOPPED(wait()), "main was not reached");
    request(libc::PTRACE_POKETEXT, main, word);
    let mut at_main = registers();
    at_main.rip = main;
    // SAFETY: the registers are the tracee's own but for the program counter.
    let set = unsafe {
        libc::ptrace(
            libc::PTRACE_SETREGS,
            pid,
            ptr::null_mut::<libc::c_void>(),
            &raw const at_main,
        )
    };
    assert_eq!(set, 0);
    let back = request(libc::PTRACE_PEEKDATA, at_main.rsp, 0) as u64;
    let mut steps = vec![(main, at_main.rsp)];
    loop {
        request(libc::PTRACE_SINGLESTEP, 0, 0);
        let status = wait();
        assert!(libc::WIFSTOPPED(status), "the program ended within main");
        let now = registers();
        if now.rip == back {
            break;
        }
        steps.push((now.rip, now.rsp));
        assert!(steps.len() < MOST_STEPS, "main does not end");
    }
    request(libc::PTRACE_DETACH, 0, 0);
    wait();
    steps
}

/// How many instructions a run executes, all threads' but the first one's left out;
/// recording or not.
pub fn instructions(program: &Path, arguments: &[&str], recording: bool) -> u64 {
    let region = recording.then(super::region);
    let mut command = Command::new(program);
    command.args(arguments);
    command.env_remove(ACTIVATION_VARIABLE);
    if let Some(file) = &region {
        let activation = format!("{}:{:016x}", file.as_raw_fd(), super::NONCE);
        command.env(ACTIVATION_VARIABLE, activation);
    }
    // SAFETY: the child makes one system call before it executes the program.
    unsafe {
        command.pre_exec(|| match libc::ptrace(libc::PTRACE_TRACEME, 0, 0, 0) {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        });
    }
    let pid = super::spawn(&mut command).id() as i32;
    let mut steps = 0;
    loop {
        let mut status = 0;
        // SAFETY: waits for a child of ours.
        let got = unsafe { libc::waitpid(pid, &mut status, 0) };
        assert_eq!(got, pid);
        if !libc::WIFSTOPPED(status) {
            assert!(libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0);
            return steps;
        }
        let signal = match libc::WSTOPSIG(status) {
            libc::SIGTRAP => 0,
            other => other,
        };
        // SAFETY: the tracee is stopped.
        let answer = unsafe { libc::ptrace(libc::PTRACE_SINGLESTEP, pid, 0, signal) };
        assert_eq!(answer, 0);
        steps += 1;
    }
}
