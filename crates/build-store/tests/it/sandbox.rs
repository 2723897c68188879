//! What a tool cannot do in the box that it runs in, tried by a tool that does it.
//!
//! The tool is a small C program, run through the very function that starts clang.
//! Each deed is tried outside of the box as well, so that a test cannot pass because
//! the deed is impossible anyway.

use std::ffi::OsString;
use std::os::fd::AsRawFd;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use build_store::sandbox::{Limits, Reach, Sandbox};
use build_store::tools::{ToolError, Tools};

const TOOL: &str = r#"
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static char *volatile kept[64];

/* 0 if the deed was done, 7 if it was refused. */
static int answer(long result) { return result < 0 ? 7 : 0; }

int main(int argc, char **argv) {
  const char *deed = argv[1], *file = argc > 2 ? argv[2] : "";
  if (!strcmp(deed, "nothing")) return 0;
  if (!strcmp(deed, "internet")) return answer(socket(AF_INET, SOCK_STREAM, 0));
  if (!strcmp(deed, "unix")) return answer(socket(AF_UNIX, SOCK_STREAM, 0));
  if (!strcmp(deed, "netlink")) return answer(socket(AF_NETLINK, SOCK_RAW, 0));
  if (!strcmp(deed, "pair")) { int two[2]; return answer(socketpair(AF_UNIX, SOCK_STREAM, 0, two)); }
  if (!strcmp(deed, "trace")) return answer(ptrace(PTRACE_TRACEME, 0, 0, 0));
  if (!strcmp(deed, "signal")) return answer(kill(getppid(), 0));
  if (!strcmp(deed, "thread-signal")) return answer(syscall(SYS_tgkill, getppid(), getppid(), 0));
  if (!strcmp(deed, "own-signal")) return answer(syscall(SYS_tgkill, getpid(), gettid(), 0));
  if (!strcmp(deed, "signal-owner")) { int two[2]; if (pipe(two)) return 9; return answer(fcntl(two[0], F_SETOWN, getppid())); }
  if (!strcmp(deed, "network-request")) { char names[4096]; long it[2] = { sizeof names, (long)names }; return answer(ioctl(2, 0x8912, it)); }
  if (!strcmp(deed, "group")) return answer(setpgid(0, getpgid(getppid())));
  if (!strcmp(deed, "descriptor")) return answer(fcntl(atoi(file), F_GETFD));
  if (!strcmp(deed, "limits")) {
    int all[] = { RLIMIT_AS, RLIMIT_FSIZE, RLIMIT_CORE };
    for (int i = 0; i < 3; i++) {
      struct rlimit most;
      getrlimit(all[i], &most);
      most.rlim_max++;
      if (!setrlimit(all[i], &most)) return 0;
      most.rlim_max--;
      if (most.rlim_cur != most.rlim_max) return 0;
    }
    return 7;
  }
  if (!strcmp(deed, "wait")) for (;;) pause();
  if (!strcmp(deed, "wait-below") || !strcmp(deed, "leave-below") || !strcmp(deed, "leave-group")) {
    pid_t it = fork();
    if (it == 0) { if (!strcmp(deed, "leave-group")) setsid(); for (int i = 0; i < 60; i++) sleep(1); _exit(0); }
    FILE *to = fopen(file, "w");
    fprintf(to, "%d", it);
    fclose(to);
    if (!strcmp(deed, "wait-below")) wait(0);
    return 0;
  }
  if (!strcmp(deed, "fork")) { pid_t it = fork(); if (it == 0) _exit(0); return answer(it); }
  if (!strcmp(deed, "nameless")) return answer(syscall(SYS_memfd_create, "x", 0));
  if (!strcmp(deed, "read")) return answer(open(file, O_RDONLY));
  if (!strcmp(deed, "list")) return answer(open(file, O_RDONLY | O_DIRECTORY));
  if (!strcmp(deed, "write")) return answer(open(file, O_WRONLY | O_CREAT, 0600));
  if (!strcmp(deed, "remove")) return answer(unlink(file));
  if (!strcmp(deed, "mode")) return answer(chmod(file, 0777));
  if (!strcmp(deed, "cut")) return answer(truncate(file, 0));
  if (!strcmp(deed, "start")) { execl(file, file, "nothing", (char *)0); return 7; }
  if (!strcmp(deed, "environment")) return getenv("SECRET") ? 0 : 7;
  if (!strcmp(deed, "privileges")) return answer(chroot("/"));
  if (!strcmp(deed, "memory")) {
    for (int i = 0; i < 64; i++) {
      char *it = malloc(64 << 20);
      if (!it) { fputs("out of memory\n", stderr); abort(); }
      memset(it, i, 64 << 20);
      kept[i] = it;
    }
    return 0;
  }
  if (!strcmp(deed, "time")) { volatile unsigned long n = 0; while (n < 40000000000ul) n++; return 0; }
  if (!strcmp(deed, "output")) {
    int to = open(file, O_WRONLY | O_CREAT, 0600);
    static char page[1 << 16];
    for (int i = 0; i < 1024; i++) if (write(to, page, sizeof page) < 0) return 9;
    return 0;
  }
  if (!strcmp(deed, "talk")) { for (int i = 0; i < 400000; i++) fputs("again and again\n", stderr); return 3; }
  return 99;
}
"#;

struct Box {
    folder: tempfile::TempDir,
}

impl Box {
    fn new() -> Box {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("work")).unwrap();
        for name in ["secret", "input"] {
            std::fs::write(folder.path().join(name), "text").unwrap();
        }
        let it = Box { folder };
        std::fs::write(it.path("tool.c"), TOOL).unwrap();
        let built = Command::new("clang-19")
            .arg("-O1")
            .arg(it.path("tool.c"))
            .arg("-o")
            .arg(it.path("tool"))
            .status();
        assert!(built.unwrap().success());
        std::fs::copy(it.path("tool"), it.path("other")).unwrap();
        it
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn reach(&self) -> Reach {
        Reach::new(&self.path("work"), &[&self.path("input")])
    }

    fn run(
        &self,
        reach: &Reach,
        sandbox: Sandbox,
        deed: &str,
        file: &Path,
    ) -> Result<(), ToolError> {
        let tools = Tools::new(sandbox, Tools::TIME);
        self.run_with(&tools, reach, deed, file)
    }

    fn run_with(
        &self,
        tools: &Tools,
        reach: &Reach,
        deed: &str,
        file: &Path,
    ) -> Result<(), ToolError> {
        let words: Vec<OsString> = vec![deed.into(), file.into()];
        tools.run(self.path("tool").as_os_str(), &words, "none", reach)
    }

    /// Inside of the box.
    fn can(&self, deed: &str, file: &Path) -> bool {
        allowed(self.run(&self.reach(), Sandbox::Required, deed, file))
    }

    fn can_outside(&self, deed: &str, file: &Path) -> bool {
        allowed(self.run(&self.reach(), Sandbox::Without, deed, file))
    }
}

fn allowed(result: Result<(), ToolError>) -> bool {
    match result {
        Ok(()) => true,
        Err(ToolError::Failed { status, .. }) if status.code() == Some(7) => false,
        Err(other) => panic!("{other}"),
    }
}

#[test]
fn no_network_and_no_other_processes() {
    let it = Box::new();
    let none = Path::new("");
    for deed in [
        "internet",
        "unix",
        "netlink",
        "pair",
        "trace",
        "signal",
        "thread-signal",
        "signal-owner",
        "network-request",
        "group",
        "fork",
        "nameless",
    ] {
        assert!(it.can_outside(deed, none), "{deed}");
        assert!(!it.can(deed, none), "{deed}");
    }
    assert!(it.can("own-signal", none), "it may abort itself");
    let mut driver = it.reach();
    driver.starts_linker = true;
    let forked = it.run(&driver, Sandbox::Required, "fork", none);
    assert!(allowed(forked), "a driver starts the linker");
    let socket = it.run(&driver, Sandbox::Required, "internet", none);
    assert!(!allowed(socket));
}

#[test]
fn no_files_but_inputs_outputs_and_the_system() {
    let it = Box::new();
    assert!(it.can("read", &it.path("input")));
    assert!(it.can("read", Path::new("/usr/lib/os-release")));
    assert!(it.can("write", &it.path("work/output")));
    assert!(it.can("remove", &it.path("work/output")));
    let outside = it.path("new");
    for (deed, file) in [
        ("read", it.path("secret")),
        ("read", "/etc/passwd".into()),
        ("read", "/dev/zero".into()),
        ("read", "/dev/urandom".into()),
        // What it says goes there; from a pipe it could read, and wait for itself.
        ("read", "/proc/self/fd/2".into()),
        ("list", it.path("")),
        ("write", it.path("input")),
        ("write", outside.clone()),
        ("mode", it.path("secret")),
        ("cut", it.path("secret")),
        ("start", it.path("other")),
        ("start", "/bin/true".into()),
        ("remove", it.path("secret")),
    ] {
        assert!(!it.can(deed, &file), "{deed} {}", file.display());
    }
    assert!(!outside.exists());
    assert_eq!(std::fs::read(it.path("secret")).unwrap(), b"text");
    for (deed, file) in [
        ("read", it.path("secret")),
        ("start", it.path("other")),
        ("write", outside),
        ("mode", it.path("secret")),
        ("cut", it.path("secret")),
    ] {
        assert!(it.can_outside(deed, &file), "{deed} {}", file.display());
    }
}

/// Whoever starts the command may have left files open, as `make -j` does with a pipe.
#[test]
fn no_descriptors_of_others() {
    let it = Box::new();
    let secret = std::fs::File::open(it.path("secret")).unwrap();
    // SAFETY: the call takes three numbers, of which the first is an open descriptor.
    let inherited = unsafe { libc::fcntl(secret.as_raw_fd(), libc::F_SETFD, 0) };
    assert_eq!(inherited, 0);
    let number = secret.as_raw_fd().to_string();
    assert!(it.can_outside("descriptor", Path::new(&number)));
    assert!(!it.can("descriptor", Path::new(&number)));
}

#[test]
fn limits_cannot_be_raised_from_inside() {
    let it = Box::new();
    assert!(!it.can("limits", Path::new("")));
}

#[test]
fn no_environment_and_no_privileges() {
    let it = Box::new();
    // SAFETY: no other thread of this test program reads or writes this variable.
    unsafe { std::env::set_var("SECRET", "x") };
    assert!(!it.can("environment", Path::new("")));
    assert!(!it.can_outside("environment", Path::new("")), "never");
    assert!(!it.can("privileges", Path::new("")));
}

fn stopped(result: Result<(), ToolError>) -> String {
    match result {
        Err(error @ ToolError::Stopped { .. }) => error.to_string(),
        other => panic!("{other:?}"),
    }
}

/// Limits hold with and without walls.
#[test]
fn limits_stop_a_tool_and_are_named() {
    let it = Box::new();
    let none = Path::new("");
    for sandbox in [Sandbox::Required, Sandbox::Without] {
        let with = |change: &dyn Fn(&mut Limits), deed: &str, file: &Path| {
            let mut reach = it.reach();
            change(&mut reach.limits);
            stopped(it.run(&reach, sandbox, deed, file))
        };
        let said = with(&|limits| limits.memory = 1 << 30, "memory", none);
        assert!(said.contains("the limit of 1024 MiB on memory"), "{said}");
        let said = with(&|limits| limits.cpu_seconds = 1, "time", none);
        assert!(said.contains("the limit of 1 s on CPU time"), "{said}");
        let large = it.path("work/large");
        let said = with(&|limits| limits.output = 1 << 20, "output", &large);
        assert!(
            said.contains("the limit of 1 MiB on what it writes"),
            "{said}"
        );
        let written = std::fs::metadata(large).unwrap().len();
        assert!(written <= 1 << 20, "{written}");
    }
}

#[test]
fn what_a_tool_says_is_read_in_part_and_it_does_not_wait() {
    let it = Box::new();
    let mut reach = it.reach();
    reach.limits.memory = 1 << 30;
    match it.run(&reach, Sandbox::Required, "talk", Path::new("")) {
        Err(ToolError::Failed { message, .. }) => assert!(message.len() < 1000, "{message}"),
        other => panic!("{other:?}"),
    }
}

/// Does the process whose number is in this file end soon? What is left of it may have to
/// be waited for by somebody else.
fn ends(number: &Path) -> bool {
    let number = std::fs::read_to_string(number).unwrap();
    (0..100).any(|_| {
        std::thread::sleep(Duration::from_millis(50));
        let about = std::fs::read_to_string(format!("/proc/{number}/stat"));
        about.map_or(true, |about| about.contains(") Z "))
    })
}

/// Soon enough to be told apart from tools that wait for a minute or for ever.
fn at_once<T>(act: impl FnOnce() -> T) -> T {
    let start = Instant::now();
    let answer = act();
    assert!(start.elapsed() < Duration::from_secs(30));
    answer
}

#[test]
fn a_tool_that_waits_is_ended_with_its_children_when_its_time_is_over() {
    let it = Box::new();
    for sandbox in [Sandbox::Required, Sandbox::Without] {
        let mut reach = it.reach();
        reach.limits.seconds = 1;
        reach.starts_linker = true;
        let child = it.path("work/child");
        for deed in ["wait", "wait-below"] {
            let said = stopped(at_once(|| it.run(&reach, sandbox, deed, &child)));
            assert!(said.contains("the limit of 1 s on elapsed time"), "{said}");
        }
        assert!(ends(&child));
    }
}

#[test]
fn what_a_tool_leaves_behind_is_ended_and_not_waited_for() {
    let it = Box::new();
    let mut reach = it.reach();
    reach.starts_linker = true;
    let child = it.path("work/child");
    for sandbox in [Sandbox::Required, Sandbox::Without] {
        at_once(|| it.run(&reach, sandbox, "leave-below", &child)).unwrap();
        assert!(ends(&child));
    }
    // Without walls it can leave the group, but it keeps nobody waiting.
    at_once(|| it.run(&reach, Sandbox::Without, "leave-group", &child)).unwrap();
    at_once(|| it.run(&reach, Sandbox::Required, "leave-group", &child)).unwrap();
    assert!(ends(&child), "with walls it cannot");
}

#[test]
fn all_tools_of_one_registration_have_a_time_together() {
    let it = Box::new();
    let tools = Tools::new(Sandbox::Required, Duration::from_millis(1500));
    let none = Path::new("");
    let mut short = it.reach();
    short.limits.seconds = 1;
    let first = it.run_with(&tools, &short, "wait", none);
    assert!(stopped(first).contains("elapsed time"));
    for deed in ["wait", "nothing"] {
        match at_once(|| it.run_with(&tools, &it.reach(), deed, none)) {
            Err(error @ ToolError::OutOfTime { .. }) => {
                assert!(error.to_string().contains("--hours"), "{error}");
            }
            other => panic!("{deed}: {other:?}"),
        }
    }
}

#[test]
fn a_tool_may_be_named_by_a_relative_path() {
    let it = Box::new();
    let here = std::env::current_dir().unwrap();
    let up: PathBuf = here.components().skip(1).map(|_| "..").collect();
    let relative = up.join(it.path("tool").strip_prefix("/").unwrap());
    let tools = Tools::new(Sandbox::Required, Tools::TIME);
    let words = ["nothing".into()];
    let ran = tools.run(relative.as_os_str(), &words, "none", &it.reach());
    ran.unwrap();
}

#[test]
fn folders_of_the_search_path_that_cannot_be_searched_do_not_matter() {
    let it = Box::new();
    std::fs::create_dir(it.path("closed")).unwrap();
    let nobody = std::fs::Permissions::from_mode(0o0);
    std::fs::set_permissions(it.path("closed"), nobody).unwrap();
    let old = std::env::var("PATH").unwrap();
    // One that is closed, one that is no folder, one that means another folder elsewhere.
    let (closed, file) = (it.path("closed"), it.path("input"));
    let path = format!("{}:{}:.:{old}", closed.display(), file.display());
    // SAFETY: nothing in this test program reads the environment but through the standard
    // library, which has a lock for it; the tools of the other tests are found as before.
    unsafe { std::env::set_var("PATH", path) };
    let mut driver = it.reach();
    driver.starts_linker = true;
    let ran = it.run(&driver, Sandbox::Required, "nothing", Path::new(""));
    ran.unwrap();
}
