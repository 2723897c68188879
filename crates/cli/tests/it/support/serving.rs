//! The real `failsketch serve` on a free port, for tests of commands that talk to it.

#![allow(dead_code)] // Each test file uses its own part.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

pub const FAILSKETCH: &str = env!("CARGO_BIN_EXE_failsketch");

/// A server that this process started. A test that panics takes it along.
pub struct Serving {
    process: Option<Child>,
    pub url: String,
}

impl Serving {
    pub fn start(data: &Path) -> Serving {
        Serving::with(data, &[])
    }

    pub fn with(data: &Path, more: &[&str]) -> Serving {
        Serving::of_store(data, &data.join("store"), more)
    }

    /// With a umask, and its log kept.
    pub fn under(umask: &str, data: &Path) -> Serving {
        let mut command = Command::new("sh");
        command
            .args(["-c", "umask \"$0\"; exec \"$@\"", umask, FAILSKETCH])
            .env_remove("FAILSKETCH_LOG")
            .stderr(Stdio::piped());
        Serving::by(command, data, &data.join("store"), &[])
    }

    /// Of a build store that lies elsewhere.
    pub fn of_store(data: &Path, store: &Path, more: &[&str]) -> Serving {
        let mut command = Command::new(FAILSKETCH);
        command.stderr(Stdio::null());
        Serving::by(command, data, store, more)
    }

    fn by(mut command: Command, data: &Path, store: &Path, more: &[&str]) -> Serving {
        let mut process = command
            .args(["serve", "--listen", "127.0.0.1:0", "--data"])
            .arg(data)
            .arg("--store")
            .arg(store)
            .args(more)
            .stdout(Stdio::piped())
            .spawn()
            .expect("failsketch serve");
        let mut line = String::new();
        let out = process.stdout.take().expect("its output");
        BufReader::new(out).read_line(&mut line).expect("a line");
        let url = line
            .split_whitespace()
            .last()
            .expect("an address")
            .to_owned();
        assert!(url.contains("://127.0.0.1:"), "{line}");
        Serving {
            process: Some(process),
            url,
        }
    }

    /// Ends it as a service manager does; it must end well. Returns its log, if
    /// that was kept.
    pub fn end(mut self) -> String {
        let process = self.process.take().expect("it ends once");
        let pid = process.id().to_string();
        let told = Command::new("kill").arg(&pid).status().expect("kill");
        assert!(told.success());
        let ended = process.wait_with_output().expect("its end");
        assert!(ended.status.success(), "{}", ended.status);
        String::from_utf8(ended.stderr).expect("text")
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        if let Some(process) = &mut self.process {
            // It may be dead already.
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}
