//! The barrier between a defect of ours and the program under diagnosis.
//!
//! Before a program starts the agent looks at its file, reads policies, asks the server
//! and prepares the recording. While it runs the supervisor waits for it, and what it
//! does beside that (describing a hang, making the record, keeping it) works on bytes
//! that the program may have overwritten. All of it is written to be total. Should it
//! panic all the same, the panic ends here: the program is started once, with less
//! recording or none, the supervisor ends as the program did, and the record, or a line
//! on standard error where there is none, says what was lost.
//!
//! Deliberately absent: aborts. A stack overflow or an allocation that the kernel
//! refuses cannot be caught, so loops and allocations are bounded where they are made.

use crate::stderr_log::say;
use sketch_model::Gap;
use std::{
    any::Any,
    panic::{self, AssertUnwindSafe, PanicHookInfo},
};

/// Does `work`. If that panics, the gap says so; `doing` completes
/// "internal error while …".
///
/// Whatever `work` changes is given up or begun anew by the callers after a panic,
/// so that a value that was left half changed is not used.
pub fn guarded<T>(doing: &str, work: impl FnOnce() -> T) -> Result<T, Gap> {
    let work = || {
        #[cfg(test)]
        super::defect_tests::fail_if_asked(doing);
        work()
    };
    panic::catch_unwind(AssertUnwindSafe(work)).map_err(|payload| Gap::AgentDefect {
        doing: doing.to_owned(),
        message: message(payload.as_ref()).to_owned(),
    })
}

fn message(payload: &(dyn Any + Send)) -> &str {
    let text = payload.downcast_ref::<&'static str>().copied();
    text.or_else(|| payload.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("a panic without words")
}

/// Panics are said in one line of ours: standard error belongs to the command.
pub fn say_panics_in_one_line() {
    panic::set_hook(Box::new(|info: &PanicHookInfo<'_>| {
        let place = info.location().map(ToString::to_string);
        say(format_args!(
            "internal error at {}: {}",
            place.unwrap_or_default(),
            message(info.payload())
        ));
    }));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_becomes_a_sentence_and_a_result_passes() {
        assert_eq!(guarded("adding", || 1 + 1), Ok(2));
        let largest = std::hint::black_box(u64::MAX);
        let caught = guarded("adding", || largest + std::hint::black_box(1));
        assert_eq!(
            caught,
            Err(Gap::AgentDefect {
                doing: "adding".into(),
                message: "attempt to add with overflow".into(),
            })
        );
        let said = guarded("saying", || -> u8 { panic!("{} words", 2) });
        assert!(said.is_err_and(|why| why.to_string().contains("while saying: 2 words;")));
    }
}
