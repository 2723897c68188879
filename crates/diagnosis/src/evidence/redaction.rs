//! What an agent withheld must not be taken for what a run showed.
//!
//! A record from which values or addresses were taken out holds zeros in their
//! place. Here they become unknown, so that no predictor sees a zero that the
//! program never saw, and no two accesses seem to be of one location because
//! both have lost theirs.

use super::trace::Timeline;
use sketch_model::{EventKind, Privacy, Source};

/// Turns what was withheld into unknowns.
pub fn drop_values(timelines: &mut [Timeline], privacy: Privacy) {
    let events = timelines.iter_mut().flat_map(|t| &mut t.events);
    match privacy {
        Privacy::Full => {}
        // Values of hits came from registers, which were not sent.
        Privacy::Shapes => events
            .filter(|event| event.source == Source::Watchpoint)
            .for_each(|event| event.value = None),
        Privacy::ControlFlowOnly => events.for_each(|event| {
            // That the statement was reached is all that is known.
            if matches!(event.kind, EventKind::Read | EventKind::Write) {
                event.kind = EventKind::Call;
            }
            event.address = None;
            event.location = None;
            event.value = None;
            event.passed.clear();
        }),
    }
}
