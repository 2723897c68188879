//! SIGTRAP stays in our hands for as long as hits come by it, and afterwards: one may
//! be on its way to some thread when the last event is put to sleep, and the default
//! action would kill.
//!
//! So the program's `sigaction` of this one signal is not passed on (`interpose.rs`
//! asks us first). What it sets is remembered and given back as it was, our handler
//! takes its flags, mask and return path, and goes on in it for every signal that is
//! not a hit. In a forked child, which has no events, the usual order holds again.
//!
//! An action for one time is reset by us, for the kernel would put the default there.

use crate::{
    crash::{self, IGNORED, SA_RESETHAND},
    layout::ENDED_HANDLER,
    state, sys,
    watch::sigtrap::{self, SIGTRAP},
};

/// Does what `sigaction` does, and returns 1; or nothing, and returns 0.
///
/// # Safety
/// Both are null or whole actions.
pub unsafe extern "C" fn set_action(
    signal: i32,
    new: *const sys::SignalAction,
    old: *mut sys::SignalAction,
) -> i32 {
    if !is_kept(signal) || state::sandboxed() {
        return 0;
    }
    // SAFETY: the caller's promise; the signal's own entry.
    unsafe {
        let theirs = crash::previous(signal).read();
        if !new.is_null() {
            let new = new.read();
            if new.handler != 0 {
                sigtrap::back_off(ENDED_HANDLER);
            }
            put(signal, &new);
        }
        if !old.is_null() {
            old.write(theirs);
        }
    }
    1
}

fn is_kept(signal: i32) -> bool {
    signal == SIGTRAP && sigtrap::is_taking()
}

fn put(signal: i32, theirs: &sys::SignalAction) {
    let mut ours = crash::in_front_of(theirs);
    if theirs.handler > IGNORED {
        ours.flags &= !SA_RESETHAND;
    }
    // SAFETY: made from it; a flag less is as good.
    unsafe { crash::put_in_front(signal, &ours, theirs) };
}

/// Whether a signal of the program's that our handler has caught goes on in the
/// program's handler with ours staying where it is.
pub fn goes_on_in_theirs(signal: i32, theirs: &sys::SignalAction) -> bool {
    if !is_kept(signal) {
        return false;
    }
    if theirs.flags & SA_RESETHAND != 0 && !state::sandboxed() {
        // The kernel, too, leaves flags and mask.
        let default = sys::SignalAction {
            handler: 0,
            ..*theirs
        };
        put(signal, &default);
    }
    true
}
