//! Ties the time-stamp counter, which inline hooks read, to CLOCK_MONOTONIC,
//! which stamps watchpoint hits.
//!
//! Each reading is bracketed: counter, clock, counter; the narrowest of several
//! brackets counts. The clock is steered by NTP, so over a long run the line
//! between the two readings is an approximation that `error_ns` does not cover.

use sketch_model::{ClockTie, Tsc};

const ATTEMPTS: usize = 16;

/// Both clocks at one moment.
#[derive(Clone, Copy, Debug)]
pub struct Reading {
    tsc: u64,
    ns: u64,
    /// The bracket's width, in counter ticks.
    width: u64,
}

pub fn counter() -> u64 {
    // SAFETY: every x86-64 processor has it, and Linux lets user code read it.
    unsafe { core::arch::x86_64::_rdtsc() }
}

fn monotonic_ns() -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: fills a whole timespec; this clock always exists.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    u64::try_from(time.tv_sec).unwrap_or(0) * 1_000_000_000
        + u64::try_from(time.tv_nsec).unwrap_or(0)
}

pub fn read() -> Reading {
    let bracket = || {
        let before = counter();
        let ns = monotonic_ns();
        let width = counter().saturating_sub(before);
        Reading {
            tsc: before + width / 2,
            ns,
            width,
        }
    };
    (1..ATTEMPTS)
        .map(|_| bracket())
        .fold(
            bracket(),
            |best, next| {
                if next.width < best.width { next } else { best }
            },
        )
}

/// Counter ticks a nanosecond, measured over a fraction of a millisecond.
pub fn ticks_per_ns() -> f64 {
    const SPAN_NS: u64 = 300_000;
    let start = read();
    loop {
        let now = read();
        let ns = now.ns.saturating_sub(start.ns);
        if ns >= SPAN_NS {
            return (now.tsc.saturating_sub(start.tsc) as f64 / ns as f64).max(1e-3);
        }
    }
}

/// The tie between a reading before the run and one after it.
pub fn tie(start: Reading, end: Reading) -> ClockTie {
    let ticks = u128::from(end.tsc.saturating_sub(start.tsc)).max(1);
    let ns = u128::from(end.ns.saturating_sub(start.ns));
    let half_width = u128::from(start.width.max(end.width)) / 2 + 1;
    ClockTie {
        start_tsc: Tsc(start.tsc),
        start_ns: start.ns,
        end_tsc: Tsc(end.tsc),
        end_ns: end.ns,
        error_ns: u64::try_from(half_width * ns / ticks + 1).unwrap_or(u64::MAX),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_error_is_half_the_wider_bracket_in_nanoseconds() {
        let start = Reading {
            tsc: 1000,
            ns: 0,
            width: 60,
        };
        let end = Reading {
            tsc: 31_000,
            ns: 10_000,
            width: 180,
        };
        // Three ticks a nanosecond: 91 ticks are 30 ns, rounded up.
        assert_eq!(tie(start, end).error_ns, 31);
    }

    #[test]
    fn two_readings_at_the_same_moment_do_not_panic() {
        let reading = Reading {
            tsc: 5,
            ns: 5,
            width: 0,
        };
        assert_eq!(tie(reading, reading).tsc_at(5), None);
    }
}
