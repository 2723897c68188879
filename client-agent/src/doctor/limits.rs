//! What the kernel allows this process: filters, rights, locked memory.

use super::{Finding, Health};
use std::fs;

/// What a ring of the usual size takes a processor: 128 pages and one.
const RING_KB: u64 = 516;
const CAP_PERFMON: u32 = 38;
const CAP_SYS_ADMIN: u32 = 21;

fn status(field: &str) -> Option<String> {
    let text = fs::read_to_string("/proc/self/status").ok()?;
    text.lines()
        .find_map(|line| line.strip_prefix(field)?.strip_prefix(':'))
        .map(|value| value.trim().to_owned())
}

pub fn seccomp() -> Finding {
    let (health, detail) = match status("Seccomp").as_deref() {
        Some("0") => (Health::Ok, "no seccomp filter is active".into()),
        Some("2") => (
            Health::Degraded,
            "a seccomp filter is active; if watchpoints are refused above, allow perf_event_open \
             in the container's profile"
                .into(),
        ),
        Some(other) => (
            Health::Degraded,
            format!("seccomp mode {other}: only a few system calls are allowed"),
        ),
        None => (
            Health::Degraded,
            "/proc/self/status does not say; mount /proc to learn more".into(),
        ),
    };
    Finding::new(health, "seccomp", detail)
}

pub fn capabilities() -> Finding {
    let what = "capabilities";
    let effective = status("CapEff").and_then(|hex| u64::from_str_radix(&hex, 16).ok());
    let has = |capability: u32| effective.is_some_and(|set| set >> capability & 1 == 1);
    let detail = if has(CAP_PERFMON) || has(CAP_SYS_ADMIN) {
        "CAP_PERFMON or CAP_SYS_ADMIN is held, which the agent does not need"
    } else {
        "none of those for perf is held, and none is needed"
    };
    Finding::new(Health::Ok, what, detail)
}

pub fn locked_memory() -> Finding {
    let read = |name: &str| {
        fs::read_to_string(format!("/proc/sys/kernel/{name}"))
            .ok()
            .and_then(|text| text.trim().parse::<u64>().ok())
    };
    let (health, detail) = match read("perf_event_mlock_kb") {
        Some(kb) if kb >= RING_KB => (
            Health::Ok,
            format!("{kb} kB per processor: rings of full size fit"),
        ),
        Some(kb) => (
            Health::Degraded,
            format!(
                "{kb} kB per processor: rings are smaller and lose hits sooner; sysctl \
                 kernel.perf_event_mlock_kb={RING_KB}"
            ),
        ),
        None => (
            Health::Degraded,
            "kernel.perf_event_mlock_kb cannot be read; rings may be smaller".into(),
        ),
    };
    Finding::new(health, "memory for rings", detail)
}
