//! Did the run fail, and how? Endings and captures → outcome.

use crate::process::hang::Hang;
use crate::process::modules::{MOST_MODULES, MainModule, ModuleCache};
use crate::process::region::{CrashCapture, Remains};
use crate::process::signals;
use crate::process::supervise::Ending;
use crate::process::unwind::unwind;
use crate::run::barrier::guarded;
use sketch_model::{
    FailureKind, FailureReport, Gap, Outcome, RuntimeAddress, Schema, StackObstacle, ThreadStack,
};

/// Signals by which people and machines end programs that have done nothing
/// wrong. A run that dies of one is no failure, and its record says so.
fn ends_healthy_programs(signal: i32) -> bool {
    matches!(
        signal,
        libc::SIGTERM
            | libc::SIGINT
            | libc::SIGHUP
            | libc::SIGQUIT
            | libc::SIGKILL
            | libc::SIGPIPE
            | libc::SIGALRM
            | libc::SIGUSR1
            | libc::SIGUSR2
    )
}

/// Judges a run. `failing_exits` are the codes that the operator declared
/// failures. What the run's record must say beside is added to `gaps`.
pub fn judge(
    ending: Ending,
    failing_exits: &[i32],
    remains: &Remains,
    main: &MainModule,
    modules: &mut ModuleCache,
    gaps: &mut Vec<Gap>,
) -> Outcome {
    let kind = match ending {
        Ending::Signal(number) if ends_healthy_programs(number) => {
            let signal = signals::name(number);
            gaps.push(Gap::CutShort { signal });
            return Outcome::Success;
        }
        Ending::Signal(number) => FailureKind::Signal {
            number,
            name: signals::name(number),
        },
        Ending::Exit(code) if failing_exits.contains(&code) => FailureKind::ExitCode(code),
        Ending::Exit(_) => {
            if let Some(crash) = &remains.crash {
                let signal = signals::name(crash.signal);
                gaps.push(Gap::WentOnAfterSignal { signal });
            }
            return Outcome::Success;
        }
    };
    // A capture belongs to this death only if it is of the same signal.
    let crash = remains.crash.as_ref().filter(
        |crash| matches!(kind, FailureKind::Signal { number, .. } if number == crash.signal),
    );
    Outcome::Failure(report(kind, crash, remains, main, modules))
}

fn why_no_stack(kind: &FailureKind, remains: &Remains) -> StackObstacle {
    let FailureKind::Signal { number, name } = kind else {
        return StackObstacle::Exit;
    };
    let signal = name.clone();
    let handled = (0..32).contains(number) && remains.handled_signals & (1 << number) != 0;
    if remains.pid.is_none() {
        StackObstacle::RuntimeNotActive
    } else if !handled {
        StackObstacle::NotHandled { signal }
    } else {
        StackObstacle::TakenByProgram { signal }
    }
}

/// The report of a run that has ended.
pub fn report(
    kind: FailureKind,
    crash: Option<&CrashCapture>,
    remains: &Remains,
    main: &MainModule,
    modules: &mut ModuleCache,
) -> FailureReport {
    let mut gaps = Vec::new();
    let maps = crash
        .map(|crash| crash.maps.as_str())
        .filter(|maps| !maps.is_empty())
        .unwrap_or(&remains.maps);
    let modules = modules.modules(maps, main);
    if modules.len() == MOST_MODULES {
        gaps.push(Gap::MappingsNotLookedAt {
            most: MOST_MODULES as u64,
        });
    }
    let mut threads = Vec::new();
    match crash {
        // The unwinder is not ours, and what it walks along may be nonsense.
        Some(crash) => match guarded("unwinding a stack", || unwind(crash, &modules)) {
            Ok(stack) => threads.push(stack),
            Err(defect) => gaps.push(defect),
        },
        None => gaps.push(Gap::NoStack {
            because: why_no_stack(&kind, remains),
        }),
    }
    FailureReport {
        schema: Schema::default(),
        kind,
        fault_address: crash
            .and_then(|crash| crash.fault_address)
            .map(RuntimeAddress),
        said: crash.and_then(|crash| crash.said.clone()),
        threads,
        mappings: modules.iter().map(|module| module.mapping()).collect(),
        gaps,
    }
}

/// The report of a process that hangs: every thread with what it waits for.
pub fn hang_report(hang: &Hang, main: &MainModule, modules: &mut ModuleCache) -> FailureReport {
    let maps = hang.threads.first().map_or("", |t| t.capture.maps.as_str());
    let modules = modules.modules(maps, main);
    let stacks = hang.threads.iter().map(|thread| ThreadStack {
        waits_for: Some(thread.waits_for.clone()),
        ..unwind(&thread.capture, &modules)
    });
    FailureReport {
        schema: Schema::default(),
        kind: FailureKind::Hang,
        fault_address: None,
        said: None,
        threads: stacks.collect(),
        mappings: modules.iter().map(|module| module.mapping()).collect(),
        gaps: hang.gaps.clone(),
    }
}
