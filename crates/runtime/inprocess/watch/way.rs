//! What a way of receiving hits has to offer: it opens the events, disabled, and
//! sees to it that what they report reaches the agent.

use crate::{layout::Region, state::Watch};

/// What was refused, and with which error.
pub struct Refusal {
    /// One of the `CALL_` constants.
    pub call: u32,
    /// As the kernel returns it; zero if it was not the kernel that refused.
    pub result: isize,
}

impl Refusal {
    pub fn of(call: u32) -> Refusal {
        Refusal { call, result: 0 }
    }
}

/// A way. Not a trait: the compiler exports methods of traits from the object, and
/// nothing of ours may be seen there.
pub struct Way {
    /// Opens an event for each slot that the header asks for, aimed at a page that
    /// nobody touches (the last argument) and asleep, fills `fds` and `attr`, and
    /// hands the descriptors to the agent. To be called by the constructor, with the
    /// active region, and with all of `fds` -1.
    pub open: unsafe fn(*mut Region, *mut Watch, u64) -> Result<(), Refusal>,
}
