//! The sentences of the causes of losses; see `gap_words.rs`.

use crate::gap_causes::*;
use crate::gap_words::error;
use crate::printable;
use std::fmt::{self, Display, Formatter};

impl Display for WatchRefusal {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            WatchRefusal::Policy => {
                f.write_str("watchpoints are disabled by policy (`watch_way = none`)")
            }
            WatchRefusal::NotOffered => f.write_str(
                "this machine offers no watchpoints; `failsketch-agent doctor` says why",
            ),
            WatchRefusal::ImportedFromPerf => f.write_str("perf records no watchpoints"),
            WatchRefusal::RuntimeNotStarted => {
                f.write_str("the runtime in the tracked build did not start")
            }
            WatchRefusal::InProgram { call, errno } => match call {
                WatchCall::PerfEventOpen => write!(
                    f,
                    "perf_event_open in the program was refused: {}; `failsketch-agent doctor` \
                     says what this machine allows",
                    error(*errno)
                ),
                WatchCall::Sendmsg => write!(
                    f,
                    "sendmsg of the watchpoints to the agent was refused: {}",
                    error(*errno)
                ),
            },
            WatchRefusal::AtStep { step, errno } => write!(
                f,
                "the watchpoints were refused at step {step}: {}",
                error(*errno)
            ),
            WatchRefusal::AgentTooSlow => {
                f.write_str("the agent did not take the watchpoints in time")
            }
            WatchRefusal::AgentRefused => f.write_str("the agent could not use the watchpoints"),
            WatchRefusal::PageNotMapped => {
                f.write_str("the program could not map a page for the watchpoints")
            }
            WatchRefusal::NoneSent => f.write_str("the program sent no watchpoints"),
            WatchRefusal::RingNotMapped { errno } => {
                f.write_str("mmap of a watchpoint ring was refused")?;
                if let Some(errno) = errno {
                    write!(f, ": {}", error(*errno))?;
                }
                f.write_str("; raise /proc/sys/kernel/perf_event_mlock_kb")
            }
            WatchRefusal::RingNotShared { errno } => write!(
                f,
                "ioctl(PERF_EVENT_IOC_SET_OUTPUT) was refused: {}",
                error(*errno)
            ),
            WatchRefusal::SocketRefused { errno } => write!(
                f,
                "watchpoints cannot be received: socketpair was refused: {}",
                error(*errno)
            ),
            WatchRefusal::ReaderFailed => f.write_str("the agent's watchpoint reader failed"),
            WatchRefusal::Words(words) => f.write_str(&printable(words)),
        }
    }
}

impl Display for LifetimeObstacle {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            LifetimeObstacle::OwnAllocator => {
                "the program does not use the C library's allocator (it brings its own, or \
                 another one is loaded)"
            }
            LifetimeObstacle::NotPreloaded => "nothing stood in front of the allocator",
            LifetimeObstacle::Withheld => "only control flow may leave this machine",
        })
    }
}

impl Display for StackObstacle {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            StackObstacle::Exit => f.write_str("an exit has no stack"),
            StackObstacle::RuntimeNotActive => {
                f.write_str("no stack was captured: the runtime was not active in the program")
            }
            StackObstacle::NotHandled { signal } => write!(
                f,
                "no stack was captured: the runtime does not handle {}",
                printable(signal)
            ),
            StackObstacle::TakenByProgram { signal } => write!(
                f,
                "no stack was captured: the program set its own handler for {} by a direct \
                 system call or at an earlier signal, or called exec, or a thread without an \
                 alternate stack overflowed",
                printable(signal)
            ),
        }
    }
}

impl Display for Withdrawal {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Withdrawal::FailsOtherwise {
                failures,
                runs,
                original_failures,
                original_runs,
            } => write!(
                f,
                "it failed differently from the failure under diagnosis in {failures} of {runs} \
                 runs; the original build did so in {original_failures} of {original_runs}"
            ),
            Withdrawal::FailsTooOften { failures, runs } => write!(
                f,
                "it failed with the failure under diagnosis in {failures} of {runs} runs"
            ),
            Withdrawal::TooSlow { percent, runs } => write!(
                f,
                "it used {:.2} times the CPU time of the original build over {runs} runs",
                *percent as f64 / 100.0
            ),
            Withdrawal::Words(words) => f.write_str(&printable(words)),
        }
    }
}

impl Display for TraceGapReason {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            TraceGapReason::NoSync => {
                f.write_str("the bytes precede the first synchronisation point")
            }
            TraceGapReason::Overflow => {
                f.write_str("the processor dropped packets because its buffer was full")
            }
            TraceGapReason::BadPacket => f.write_str("the bytes are no known packet"),
            TraceGapReason::Truncated => f.write_str("the trace ends within a packet"),
            TraceGapReason::EndsWhileTracing => f.write_str(
                "the trace ends while tracing was on, so how far execution went is not known",
            ),
            TraceGapReason::NoCode { at } => write!(
                f,
                "no code is known at {at}; add the file that was mapped there"
            ),
            TraceGapReason::Contradiction(how) => write!(
                f,
                "trace and code disagree ({}); the given files may not be the ones that ran",
                printable(how)
            ),
            TraceGapReason::Endless { from } => write!(
                f,
                "the code runs on from {from} without a branch that the trace could confirm"
            ),
            TraceGapReason::Decoder(how) => write!(f, "libipt failed: {}", printable(how)),
        }
    }
}
