//! `--check CMD`: the operator's own verdict on a run that succeeded.
//!
//! Some failures are wrong answers, not crashes. The checker is a shell command
//! that runs after the program, with the agent's streams, and is given the program's
//! exit status or signal; a status other than zero makes the run a failure. It is part
//! of the operator's set-up, so it runs with the operator's rights and
//! environment, and no time limit of ours: what it looks at is its business.

use crate::process::supervise::Ending;
use crate::process::sys::errno;
use sketch_model::CheckerFailure;
use std::{
    fs,
    process::{Command, Stdio},
};

const OUTPUT: &str = "/proc/self/fd/1";

/// The checker's verdict: `Ok(None)` if all is well, the exit status if not, or
/// why there is no verdict.
pub fn check(command: &str, ending: Ending) -> Result<Option<i32>, CheckerFailure> {
    let mut checker = Command::new("/bin/sh");
    checker
        .args(["-c", command])
        .stdin(Stdio::null())
        // The program's output may be piped somewhere; the checker must not
        // write into it.
        .stdout(Stdio::null());
    match ending {
        Ending::Exit(code) => checker.env("FAILSKETCH_EXIT", code.to_string()),
        Ending::Signal(signal) => checker.env("FAILSKETCH_SIGNAL", signal.to_string()),
    };
    // Where the program's output is a file, the checker may read it.
    if fs::metadata(OUTPUT).is_ok_and(|about| about.is_file()) {
        checker.env(
            "FAILSKETCH_OUTPUT",
            format!("/proc/{}/fd/1", std::process::id()),
        );
    }
    let status = checker
        .status()
        .map_err(|error| CheckerFailure::NotStarted {
            errno: errno(&error),
        })?;
    match status.code() {
        Some(0) => Ok(None),
        // The shell's own words for "not found" and "not executable".
        Some(status @ (126 | 127)) => Err(CheckerFailure::ShellStatus { status }),
        Some(code) => Ok(Some(code)),
        None => Err(CheckerFailure::Killed),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checker_sees_how_the_program_ended_and_decides() {
        let well = Ending::Exit(0);
        assert_eq!(check("exit 0", well), Ok(None));
        assert_eq!(check("exit 3", well), Ok(Some(3)));
        assert_eq!(check("exit $FAILSKETCH_EXIT", Ending::Exit(7)), Ok(Some(7)));
        let killed = Ending::Signal(15);
        assert_eq!(check("exit $FAILSKETCH_SIGNAL", killed), Ok(Some(15)));
        assert_eq!(
            check("no-such-checker-here 2>/dev/null", well),
            Err(CheckerFailure::ShellStatus { status: 127 })
        );
        assert_eq!(check("kill -9 $$", well), Err(CheckerFailure::Killed));
    }
}
