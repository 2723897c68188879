//! What a tool cannot do in the box that it runs in, tried by a tool that does it.
//!
//! The tool is a small C program, run through the very function that starts clang.
//! Each deed is tried outside of the box as well, so that a test cannot pass because
//! the deed is impossible anyway.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use build_store::sandbox::{Limits, Reach, Sandbox};
use build_store::tools::{ToolError, run};

const TOOL: &str = r#"
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
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
  if (!strcmp(deed, "talk")) { for (int i = 0; i < 4000000; i++) fputs("again and again\n", stderr); return 3; }
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
        let words: Vec<OsString> = vec![deed.into(), file.into()];
        run(
            self.path("tool").as_os_str(),
            &words,
            "none",
            reach,
            sandbox,
        )
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
        "internet", "unix", "netlink", "pair", "trace", "signal", "fork", "nameless",
    ] {
        assert!(it.can_outside(deed, none), "{deed}");
        assert!(!it.can(deed, none), "{deed}");
    }
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
