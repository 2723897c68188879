//! The pages around the sketch. Each is a function from plain values, which the
//! server gathers, to one document.
//!
//! Where `sketch-model` has no word for what a page shows (an agent as the fleet
//! page lists it, two runs side by side), the page's own file defines it: it is
//! how a value is *shown*, not what goes over the wire.

pub mod builds;
pub mod change_words;
pub mod failures;
pub mod fleet;
pub mod login;
pub mod progress;
pub mod runs;
pub mod slice;
pub mod source;
