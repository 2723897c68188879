//! The real daemon, started and ended by tests.

use super::{AGENT, Workshop};
use std::{
    fs,
    os::unix::net::UnixStream,
    path::{Path, PathBuf},
    process::{Child, Command},
    time::Duration,
};

/// A port that nobody listens on: it was just given back.
pub fn silent_server() -> String {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    format!("http://{}", listener.local_addr().expect("bound"))
}

/// True as soon as `done` is; gives up after a minute.
pub fn eventually(mut done: impl FnMut() -> bool) -> bool {
    (0..1200).any(|_| {
        std::thread::sleep(Duration::from_millis(50));
        done()
    })
}

pub fn segments(spool: &Path) -> usize {
    fs::read_dir(spool).map_or(0, Iterator::count)
}

/// A daemon with its configuration, ended with the test.
pub struct Daemon {
    child: Child,
    pub config: PathBuf,
}

impl Daemon {
    /// Starts one and waits until it listens.
    pub fn start(workshop: &Workshop, server: &str, key: &str, policy: &str) -> Daemon {
        let daemon = Daemon::launch(workshop, server, key, policy);
        let socket = workshop.path("agent.sock");
        let up = eventually(|| UnixStream::connect(&socket).is_ok());
        assert!(up, "the daemon listens");
        daemon
    }

    /// Starts one and does not wait.
    pub fn launch(workshop: &Workshop, server: &str, key: &str, policy: &str) -> Daemon {
        let config = workshop.path("agent.toml");
        let socket = workshop.path("agent.sock");
        let text = format!(
            "server = {server:?}\nkey = {key:?}\nsocket = {socket:?}\ncache = {cache:?}\n\
             privacy_secret = {secret:?}\n{policy}",
            cache = workshop.path("daemon-cache"),
            secret = workshop.path("secret"),
        );
        fs::write(workshop.path("secret"), "sixteen bytes or more").expect("written");
        // Runs may be reading it: whole, or not at all.
        let fresh = workshop.path("agent.toml.new");
        fs::write(&fresh, text).expect("written");
        fs::rename(&fresh, &config).expect("renamed");
        let child = Command::new(AGENT)
            .args(["daemon", "--config"])
            .arg(&config)
            .spawn()
            .expect("starts");
        Daemon { child, config }
    }

    pub fn run(&self, program: &Path, arguments: &[&str]) -> Option<i32> {
        Command::new(AGENT)
            .args(["run", "--config"])
            .arg(&self.config)
            .arg("--")
            .arg(program)
            .args(arguments)
            .status()
            .expect("runs")
            .code()
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    pub fn kill(&mut self) {
        self.child.kill().expect("is ours");
        self.child.wait().expect("ends");
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        // It may have been ended by the test.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
