//! Every sentence about a loss.
//!
//! The causes that a gap names have theirs in `gap_cause_words.rs`.
//!
//! Here and not in the viewer, because the agent says some of them on its error stream and may not
//! use the viewer. Text, pages, Markdown and exports show the same sentences. None holds a control
//! character, whatever names a program or a server brought: foreign words go through
//! [`printable`].

use crate::gap_causes::*;
use crate::{Gap, LocationName, printable};
use std::fmt::{self, Display, Formatter};
use std::io;

/// What the kernel means by an error number.
pub(crate) fn error(errno: i32) -> io::Error {
    io::Error::from_raw_os_error(errno)
}

/// "once" or "3 times".
fn times(count: u64) -> String {
    match count {
        1 => "once".to_owned(),
        _ => format!("{count} times"),
    }
}

/// A share in millionths as percent, without needless digits.
fn percent(ppm: u64) -> f64 {
    ppm as f64 / 10_000.0
}

fn names(locations: &[LocationName]) -> String {
    let names: Vec<String> = locations
        .iter()
        .map(|it| printable(&it.to_string()))
        .collect();
    names.join(", ")
}

impl Display for Gap {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Gap::HitsLost { lost, counted } => {
                write!(f, "{lost} of {counted} watchpoint hits were lost")
            }
            Gap::HitsLostInRing { count } => {
                write!(f, "{count} watchpoint hits were lost in a full ring")
            }
            Gap::HitsUnreadable { count } => {
                write!(f, "{count} watchpoint records could not be read")
            }
            Gap::HitsWithoutSlot { count } => {
                write!(f, "{count} watchpoint hits came without slot or registers")
            }
            Gap::HitsOfChildren { count } => {
                write!(f, "{count} watchpoint hits of child processes were dropped")
            }
            Gap::HitsBeyondMemory { kept_bytes } => write!(
                f,
                "the agent keeps {} MiB of watchpoint hits; some beyond that were dropped",
                kept_bytes >> 20
            ),
            Gap::HitsTrimmed { count, kept } => write!(
                f,
                "{count} watchpoint hits between the first and the last {kept} were not kept"
            ),
            Gap::HitsWithheld { count } => write!(
                f,
                "{count} watchpoint hits were withheld: only control flow may leave this machine"
            ),
            Gap::HitsWithoutTime { count } => write!(
                f,
                "{count} watchpoint hits have no place in time and are not used"
            ),
            Gap::HitsUnattributed { count } => write!(
                f,
                "{count} watchpoint hits could not be attributed to a statement"
            ),
            Gap::HitsAmbiguous { count } => write!(
                f,
                "{count} watchpoint hits of the drawn run may belong to several statements and \
                 are not drawn"
            ),
            Gap::WatchpointPaused { count } => write!(
                f,
                "the kernel paused a watchpoint {} because it was hit too often",
                times(*count)
            ),
            Gap::WatchpointIdUnread { count, errno } => write!(
                f,
                "the ids of {count} watchpoint events could not be read: {}",
                error(*errno)
            ),
            Gap::WatchpointCounterUnread { count, errno } => write!(
                f,
                "the counters of {count} watchpoint events could not be read: {}",
                error(*errno)
            ),
            Gap::AimsSkipped { count, because } => match because {
                AimObstacle::RefusedByKernel => write!(
                    f,
                    "{count} re-aims of a watchpoint were refused by the kernel"
                ),
                AimObstacle::Contended => write!(
                    f,
                    "{count} re-aims of a watchpoint were skipped because another thread was \
                     aiming it"
                ),
                AimObstacle::OverLimit => write!(
                    f,
                    "{count} re-aims of a watchpoint were skipped because the run had used up \
                     its limit"
                ),
                AimObstacle::Sandboxed => write!(
                    f,
                    "{count} re-aims of a watchpoint were skipped because the program has a \
                     seccomp filter"
                ),
                AimObstacle::OwnStack => write!(
                    f,
                    "{count} aims of a watchpoint were skipped because the memory is on the \
                     stack of the thread that accesses it"
                ),
            },
            Gap::WatchingEndedByHits { hits } => write!(
                f,
                "watching ended before the run did, after {hits} hits: each costs the program \
                 microseconds"
            ),
            Gap::WatchingEndedBySwitches { switches } => write!(
                f,
                "watching ended before the run did, after {switches} thread switches: each costs \
                 more while watchpoints are set"
            ),
            Gap::NoWatchpoints { because } => write!(f, "no watchpoints: {because}"),
            Gap::NoWatchpointFree { locations } => {
                write!(f, "no watchpoint was free for {}", names(locations))
            }
            Gap::LocationsNotWatched { locations } => {
                write!(f, "no plan watches {}", names(locations))
            }
            Gap::WatchingGivenUp => f.write_str(
                "watchpoints made nearly every run fail, so nothing is watched any more",
            ),

            Gap::ThreadsNotRecorded { count, because } => match because {
                ThreadLoss::NoRoom { slots } => write!(
                    f,
                    "{count} threads were not recorded: there is room for {slots} at a time"
                ),
                ThreadLoss::TooFast => write!(
                    f,
                    "{count} threads ended before their records could be read"
                ),
                ThreadLoss::EndedNotKept => write!(
                    f,
                    "the records of {count} ended threads were not kept: only the first and the \
                     last ones are"
                ),
            },
            Gap::EventsUnfinished { tid, count } => write!(
                f,
                "thread {tid} was still writing {count} of its events when the process ended"
            ),
            Gap::EventsLost { tid, count } => {
                write!(f, "thread {tid} lost {count} of its events")
            }
            Gap::EventsWithoutHook { count } => write!(
                f,
                "{count} recorded events belong to no hook of the plan and are not used"
            ),
            Gap::LifetimesNotObserved { because } => write!(
                f,
                "whether memory was used after it was freed is not known: {because}"
            ),
            Gap::FreedBlocksForgotten { count } => write!(
                f,
                "of the blocks of memory that were free, {count} older ones were not kept"
            ),
            Gap::AccessesThinned => f.write_str(
                "some accesses were made too often to keep them all: of each thread's, the first \
                 ones, the latest that was looked at and what all values looked like are known, \
                 and successful runs are judged by the first",
            ),
            Gap::ThreadRecordedTwice { thread } => write!(
                f,
                "thread {thread} is recorded twice; its second record is not used"
            ),
            Gap::CounterForbidden => f.write_str(
                "recording ended early: the program has disabled the time-stamp counter for \
                 itself",
            ),
            Gap::ThreadIdsUnknown => f.write_str(
                "nothing was recorded: the runtime does not know where this C library keeps \
                 thread ids",
            ),
            Gap::RuntimeNotActive => f.write_str("the runtime was not activated in the program"),
            Gap::RecordsUnreadable { because } => {
                write!(f, "the records could not be read: {}", printable(because))
            }
            Gap::RecordingPaused {
                times: count,
                limit_ppm,
                on_permille,
            } => write!(
                f,
                "recording was paused {} to keep its cost at {}% of processor time; it was on \
                 for {:.1}% of the run",
                times(*count),
                percent(*limit_ppm),
                *on_permille as f64 / 10.0
            ),

            Gap::MappingsNotLookedAt { most } => {
                write!(f, "only the first {most} mappings were read")
            }
            Gap::MappingsCut { when, bytes } => {
                let when = match when {
                    MappingsOf::Start => "start",
                    MappingsOf::Crash => "the crash",
                };
                write!(f, "the list of mappings at {when} was cut at {bytes} bytes")
            }
            Gap::CrashCaptureUnfinished => {
                f.write_str("the process died before its crash was fully captured")
            }
            Gap::CrashCapturedInSandbox => f.write_str(
                "the program has a seccomp filter: its crash was captured without system calls, \
                 with the mappings that it had at its start",
            ),
            Gap::OnlyFirstSignalCaptured => f.write_str(
                "the program's own handler ran after its first crash signal was captured; what \
                 came after that was not",
            ),
            Gap::NoStack { because } => write!(f, "{because}"),
            Gap::CutShort { signal } => {
                write!(f, "the run was cut short by {}", printable(signal))
            }
            Gap::WentOnAfterSignal { signal } => write!(
                f,
                "{} was captured, but the program went on",
                printable(signal)
            ),
            Gap::HangGoesOn => f.write_str(
                "watchpoint hits, ended threads and pauses are not in a report of a hang that \
                 goes on",
            ),
            Gap::ThreadsNotCaptured { captured, all } => {
                write!(f, "only {captured} of {all} threads were captured")
            }
            Gap::ThreadNotCaptured { tid, because } => write!(
                f,
                "thread {tid} could not be captured: {}",
                printable(because)
            ),
            Gap::AbortMessageWithheld => {
                f.write_str("the abort message was withheld: values may not leave this machine")
            }
            Gap::AgentDefect { doing, message } => write!(
                f,
                "internal error of the agent while {}: {}; please report it",
                printable(doing),
                printable(message)
            ),
            Gap::CheckerFailed { because } => match because {
                CheckerFailure::NotStarted { errno } => {
                    write!(f, "the checker could not be run: {}", error(*errno))
                }
                CheckerFailure::ShellStatus { status } => write!(
                    f,
                    "the checker could not be run: the shell ended with {status}; check --check"
                ),
                CheckerFailure::Killed => {
                    f.write_str("the checker was killed; it has given no verdict")
                }
            },

            Gap::RunNotRecorded { because } => {
                write!(f, "the run could not be recorded: {}", printable(because))
            }
            Gap::NothingPreloaded { because } => match because {
                PreloadObstacle::StaticallyLinked => f.write_str(
                    "the program is statically linked: crashes of the untouched build cannot be \
                     captured",
                ),
                PreloadObstacle::Sanitizer { library } => write!(
                    f,
                    "the program uses {}, which cannot run with a preloaded library: crashes of \
                     the untouched build cannot be captured",
                    printable(library)
                ),
                PreloadObstacle::NoFile { because } => {
                    write!(f, "crashes cannot be captured: {}", printable(because))
                }
            },
            Gap::NamedPatchRefused { because } => write!(
                f,
                "the patch given by --patch was not run: {}",
                printable(because)
            ),
            Gap::TrackedBuildRefused { because } => write!(
                f,
                "the assigned tracked build was not run: {}",
                printable(because)
            ),
            Gap::TrackedBuildNotExecuted { because } => write!(
                f,
                "the tracked build could not be executed: {}",
                printable(because)
            ),
            Gap::TrackedBuildWithdrawn { because } => write!(
                f,
                "the tracked build was withdrawn on this machine: {because}"
            ),
            Gap::TrackedBuildTooCostly {
                excess_ns,
                limit_ppm,
            } => write!(
                f,
                "the tracked build was not run: it would cost {:.2} ms more than the {}% of \
                 processor time that tracking may cost, and earlier runs have not saved that \
                 much yet",
                *excess_ns as f64 / 1e6,
                percent(*limit_ppm)
            ),
            Gap::LeftOut { part, bytes, most } => {
                let part = match part {
                    RecordPart::IntelPt => "the Intel PT trace was",
                    RecordPart::WatchpointHits => "watchpoint hits were",
                    RecordPart::Threads => "what threads recorded was",
                };
                write!(
                    f,
                    "{part} left out: the record had {bytes} bytes, and {most} are sent at most"
                )
            }

            Gap::TraceRefused { because } => write!(f, "no Intel PT: {}", printable(because)),
            Gap::TraceReaderFailed => f.write_str("Intel PT: the reader of the trace failed"),
            Gap::TraceNotLimited { because } => write!(
                f,
                "Intel PT: libraries are traced as well, so the trace is shorter: {}",
                printable(because)
            ),
            Gap::TraceReadWhileWritten { cpu, errno } => write!(
                f,
                "Intel PT: the trace of processor {cpu} was read while it was written: {}",
                error(*errno)
            ),
            Gap::SidebandLost { count } => {
                write!(f, "Intel PT: {count} sideband records were lost")
            }
            Gap::SidebandUnreadable { count } => {
                write!(f, "Intel PT: {count} sideband records could not be read")
            }
            Gap::SwitchesNotKept { count } => {
                write!(f, "Intel PT: {count} older thread switches were not kept")
            }
            Gap::MappingsNotKept { count } => write!(
                f,
                "Intel PT: {count} later mappings and threads were not kept"
            ),
            Gap::PerfRecordsLost { count } => write!(f, "{count} perf records were lost"),
            Gap::TraceBufferFull { count } => {
                write!(f, "the buffer of the trace was full ({})", times(*count))
            }
            Gap::TraceOverwritten { count } => {
                write!(f, "older trace was overwritten ({})", times(*count))
            }
            Gap::TraceHoles { count } => write!(
                f,
                "the kernel reports holes in the trace ({})",
                times(*count)
            ),
            Gap::TraceDamaged { tid, reason, count } => {
                write!(f, "the trace of thread {tid}: {reason}")?;
                match count {
                    0 | 1 => Ok(()),
                    _ => write!(f, " ({count} times)"),
                }
            }
            Gap::TraceDoubtful { tid, count } => write!(
                f,
                "{count} stretches of trace may be of thread {tid} or of another one"
            ),
            Gap::TraceUnassigned { count } => write!(
                f,
                "{count} stretches of the trace belong to an unknown thread"
            ),
            Gap::ThreadTraceIncomplete { tid } => {
                write!(f, "the trace of thread {tid} has gaps")
            }
            Gap::TraceWithoutProgram => f.write_str("the trace shows no code of the program"),
            Gap::TraceNotDecoded { because } => write!(
                f,
                "its Intel PT could not be decoded: {}",
                printable(because)
            ),
            Gap::TraceMissing => {
                f.write_str("its Intel PT trace is missing, so its branches are unknown")
            }
            Gap::CodeUnknown { path } => write!(f, "the code of {} is not known", printable(path)),
            Gap::PerfFileCut => f.write_str(
                "the file ends before its recording does: perf was killed or the disk was full",
            ),
            Gap::ProcessorUnknown => f.write_str(
                "the file does not name an Intel processor, so errata of old models are not \
                 worked around",
            ),
            Gap::ClockUnknown => f.write_str(
                "the file does not say how perf's clock relates to the trace's, so threads that \
                 share a processor cannot be told apart",
            ),
            Gap::ImportedFromPerf => {
                f.write_str("imported from perf.data: control flow only, no values")
            }
            Gap::FailurePlaceFromTrace => f.write_str(
                "the failing statement is the one at which \
                                                       the trace ends",
            ),

            Gap::ModuleWithoutDebugInfo { module } => write!(
                f,
                "module {} has no debug info: its code is followed but none of its lines can be \
                 named; rebuild it with -g",
                printable(module)
            ),
            Gap::RoutineUnknown { function, routine } => {
                let function = printable(function);
                match routine {
                    UnknownRoutine::StdThread => write!(
                        f,
                        "the callable of a std::thread made in {function} is not known, so the \
                         slice does not link that thread to its creation"
                    ),
                    UnknownRoutine::ThreadStart => write!(
                        f,
                        "the start routine of a thread created in {function} is not known; every \
                         function of its type is assumed"
                    ),
                    UnknownRoutine::Callback { library_function } => write!(
                        f,
                        "the callback that {function} passes to {} is not known; every function \
                         of its type is assumed",
                        printable(library_function)
                    ),
                }
            }
            Gap::StatementNotInBuild {
                statement,
                statements,
            } => write!(
                f,
                "statement {statement} is not in this build's table of {statements} statements"
            ),
            Gap::SliceCut { statements } => write!(
                f,
                "the slice holds the nearest {statements} statements; there are more"
            ),
            Gap::PointsToOverBudget => f.write_str(
                "the points-to analysis exceeds its budget on this program; stores were matched \
                 by field instead",
            ),
            Gap::LoadsUnresolved { count } => write!(
                f,
                "{count} loads in the slice go through pointers whose targets are not known \
                 statically; watchpoints find what stores there"
            ),
            Gap::AssemblyOpaque { count } => write!(
                f,
                "{count} pieces of inline assembly in the slice are assumed to depend on their \
                 operands only"
            ),

            Gap::TracedRunsNotKept { count } => write!(
                f,
                "{count} traced runs of the original build were not kept: there were too many"
            ),
            Gap::PlansCountedApart { plans } => {
                let counts: Vec<String> = plans
                    .iter()
                    .map(|it| {
                        let PlanCounts { plan, failed, runs } = it;
                        format!("plan {plan}: {failed} of {runs} runs failed")
                    })
                    .collect();
                write!(
                    f,
                    "{} plans watch different locations and are counted separately ({})",
                    plans.len(),
                    counts.join(", ")
                )
            }
            Gap::StatementsNeverRan { idle, tracked } => write!(
                f,
                "{idle} of {tracked} tracked statements are not known to have run in any run"
            ),
            Gap::FailedOtherwise { count } => write!(
                f,
                "{count} tracked runs failed differently and count neither as failing nor as \
                 successful"
            ),
            Gap::StatementsNotShown { count } => write!(
                f,
                "{count} statements of the slice, farther from the failure, are not shown"
            ),
            Gap::ThreadsNotDrawn { count } => write!(
                f,
                "{count} threads of the drawn run are not drawn: they add nothing to the sketch"
            ),
            Gap::Words(words) => f.write_str(&printable(words)),
        }
    }
}
