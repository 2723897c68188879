//! `failsketch-agent doctor`: what this machine can do, found by doing it.

mod limits;
mod privacy;
pub(crate) mod server;

use crate::intel_pt::{PtRefusal, PtSource};
use crate::policy::file::Config;
use crate::process::sys::{self, MemoryUse};
use crate::watchpoints::probe::{self, WatchpointProbe};
use serde::Serialize;
use std::{fmt, fs, os::fd::AsFd};

/// How well something works.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Health {
    Ok,
    Degraded,
    Missing,
}

/// One line of the report.
#[derive(Debug, Serialize)]
pub struct Finding {
    pub health: Health,
    pub what: &'static str,
    pub detail: String,
}

impl Finding {
    pub fn new(health: Health, what: &'static str, detail: impl Into<String>) -> Finding {
        Finding {
            health,
            what,
            detail: detail.into(),
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let health = match self.health {
            Health::Ok => "ok",
            Health::Degraded => "degraded",
            Health::Missing => "missing",
        };
        write!(f, "{health:<9} {}: {}", self.what, self.detail)
    }
}

/// Looks at everything, in the order in which the flow needs it.
pub fn examine(config: &Config) -> Vec<Finding> {
    let mut findings = vec![
        shared_memory(),
        with_cost(watchpoints("watchpoints", probe::try_watchpoint())),
        watchpoints("watchpoints in a child", in_a_child(false)),
        watchpoints("watchpoints with SIGTRAP blocked", in_a_child(true)),
        perf_level(),
        intel_pt(),
        limits::seccomp(),
        limits::capabilities(),
        limits::locked_memory(),
        server::key(config),
    ];
    findings.extend(server::token(config));
    findings.push(privacy::values(config));
    findings.extend(server::server_and_clock(config));
    findings
}

fn shared_memory() -> Finding {
    let what = "shared memory";
    let tried = sys::memfd(c"failsketch-doctor", MemoryUse::Data)
        .and_then(|file| {
            sys::allocate(file.as_fd(), 4096)?;
            Ok(file)
        })
        .and_then(|file| sys::seal_size(file.as_fd()));
    match tried {
        Ok(()) => {
            let detail = "a sealed memfd can be made; records outlive a crash";
            Finding::new(Health::Ok, what, detail)
        }
        Err(reason) => {
            let detail = format!(
                "memfd_create or sealing was refused ({reason}); allow memfd_create in the seccomp \
                 profile, else programs run untouched"
            );
            Finding::new(Health::Missing, what, detail)
        }
    }
}

fn watchpoints(what: &'static str, probe: WatchpointProbe) -> Finding {
    let (health, detail) = match probe {
        WatchpointProbe::Works => (
            Health::Ok,
            "a watchpoint was set, moved, and fired at each access".into(),
        ),
        WatchpointProbe::Silent { counted, expected } => (
            Health::Missing,
            format!(
                "watchpoints are accepted, but fired {counted} of {expected} times: this virtual \
                 machine does not emulate debug registers; sketches will rest on hooks alone"
            ),
        ),
        WatchpointProbe::Refused { call, reason } => (
            Health::Missing,
            format!(
                "{call} was refused ({reason}); allow perf_event_open in the container's seccomp \
                 profile and set kernel.perf_event_paranoid to 2 or less"
            ),
        ),
    };
    Finding::new(health, what, detail)
}

/// What a hit costs is what the governor will charge for it.
fn with_cost(mut finding: Finding) -> Finding {
    if finding.health == Health::Ok {
        let microseconds = probe::hit_cost_ns() as f64 / 1000.0;
        finding.detail += &format!("; a hit costs {microseconds:.1} µs");
    }
    finding
}

/// The same probe in a forked child: some sandboxes treat children differently.
/// The child answers through its exit status.
fn in_a_child(sigtrap_blocked: bool) -> WatchpointProbe {
    // SAFETY: doctor has one thread; the child only probes and exits.
    let pid = unsafe { libc::fork() };
    if pid == 0 {
        if sigtrap_blocked {
            // SAFETY: the set is initialised before use.
            unsafe {
                let mut set = std::mem::zeroed();
                libc::sigemptyset(&raw mut set);
                libc::sigaddset(&raw mut set, libc::SIGTRAP);
                libc::sigprocmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut());
            }
        }
        let answer = match probe::try_watchpoint() {
            WatchpointProbe::Works => 200,
            WatchpointProbe::Silent { counted, .. } => 210 + counted.min(9) as i32,
            WatchpointProbe::Refused { reason, .. } => reason.raw_os_error().unwrap_or(199),
        };
        // SAFETY: ends the child without running the parent's exit handlers.
        unsafe { libc::_exit(answer) }
    }
    let refused = |call, reason| WatchpointProbe::Refused { call, reason };
    if pid < 0 {
        return refused("fork", std::io::Error::last_os_error());
    }
    let mut status = 0;
    // SAFETY: waits for our own child.
    let got = unsafe { libc::waitpid(pid, &raw mut status, 0) };
    if got != pid || !libc::WIFEXITED(status) {
        return refused("waitpid", std::io::Error::last_os_error());
    }
    match libc::WEXITSTATUS(status) {
        200 => WatchpointProbe::Works,
        silent @ 210..=219 => WatchpointProbe::Silent {
            counted: (silent - 210) as u64,
            expected: 3,
        },
        errno => refused("perf_event_open", std::io::Error::from_raw_os_error(errno)),
    }
}

fn perf_level() -> Finding {
    let what = "kernel.perf_event_paranoid";
    let level = fs::read_to_string("/proc/sys/kernel/perf_event_paranoid")
        .ok()
        .and_then(|text| text.trim().parse::<i32>().ok());
    let (health, detail) = match level {
        Some(level @ ..=2) => (
            Health::Ok,
            format!("{level}: processes may watch themselves"),
        ),
        Some(level) => (
            Health::Degraded,
            format!(
                "{level}: ordinary users get no watchpoints; sysctl kernel.perf_event_paranoid=2"
            ),
        ),
        None => (
            Health::Degraded,
            "the setting cannot be read: this kernel or sandbox hides perf".into(),
        ),
    };
    Finding::new(health, what, detail)
}

fn intel_pt() -> Finding {
    let (health, detail) = match PtSource::of_this_machine() {
        Ok(_) => (
            Health::Ok,
            "an event and its buffers were opened; records carry the trace of the end of each \
             run"
            .into(),
        ),
        Err(refusal @ (PtRefusal::Absent(_) | PtRefusal::Description { .. })) => {
            (Health::Missing, refusal.to_string())
        }
        Err(refusal @ PtRefusal::Call { .. }) => (Health::Degraded, refusal.to_string()),
    };
    Finding::new(health, "Intel PT", detail)
}
