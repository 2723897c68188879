//! `failsketch-agent run`: once, as a transparent supervisor, or again and
//! again, asking the server before each run what to run.
//!
//! A defect of ours on the way costs the record. The command is started all the same,
//! once, and ends as it would without us.

use crate::cli::RunArguments;
use crate::error::AgentError;
use crate::process::environment;
use crate::process::inherited::Inherited;
use crate::process::signals::SignalQueue;
use crate::process::supervise::Ended;
use crate::run::Supervisor;
use crate::run::barrier::guarded;
use crate::run::decision::Session;
use crate::run::program::Program;
use crate::stderr_log::say;
use std::{ffi::CString, os::unix::ffi::OsStrExt};

/// Runs the command as asked. The result is how the agent itself is to end:
/// like the command (`Some`), or with success after repeated runs.
pub fn run(arguments: &RunArguments) -> Result<Option<Ended>, AgentError> {
    let inherited = Inherited::take().map_err(|e| AgentError::call("sigprocmask", e))?;
    // Without a queue the command still runs; signals to us then end us alone.
    let queue = SignalQueue::open()
        .inspect_err(|e| say(format_args!("signals are not passed on: {e}")))
        .ok();
    let Some(command) = arguments.command.first() else {
        return Err(AgentError::CommandNotFound {
            command: String::new(),
        });
    };
    let program = Program::find(command, std::env::var_os("PATH"))?;
    // The kernel hands out arguments without zero bytes.
    let command_line: Vec<CString> = arguments
        .command
        .iter()
        .filter_map(|argument| CString::new(argument.as_bytes()).ok())
        .collect();
    let environment = environment::own();
    let supervisor = Supervisor::new(
        &program,
        &command_line,
        environment,
        inherited,
        queue.as_ref(),
    );
    let opened = guarded("preparing to record runs", || {
        Session::open(arguments, &supervisor)
    });
    let mut defective = opened.is_err();
    let mut session = opened.unwrap_or_else(|defect| {
        supervisor.say_unrecorded(defect);
        None
    });
    let repeated = arguments.repeat.is_some() || arguments.until_finished;
    let mut runs = 0;
    loop {
        let ended = match session.as_mut() {
            Some(running) => match supervisor.begin(|| running.next_run(&supervisor)) {
                Ok(run) => match run? {
                    Some(ended) => ended,
                    None => return Ok(None),
                },
                Err(defect) => {
                    supervisor.say_unrecorded(defect);
                    // What it holds may be half changed.
                    session = None;
                    defective = true;
                    supervisor.go_on_bare()?
                }
            },
            None => supervisor.run_bare()?,
        };
        runs += 1;
        if !repeated {
            return Ok(Some(ended));
        }
        if ended.asked_to_end || arguments.repeat.is_some_and(|most| runs >= most) {
            return Ok(None);
        }
        if session.is_none() && arguments.repeat.is_none() {
            if !defective {
                say("--until-finished needs a server and a program with a build-id");
            }
            return Ok(None);
        }
    }
}
