//! Which memory an instruction touches, and who stored there before.

pub(crate) mod alias;
pub(crate) mod contents;
pub(crate) mod freed;
pub(crate) mod heap;
pub(crate) mod moving_pointers;
pub(crate) mod places;
pub(crate) mod points_to;
pub(crate) mod reaching;
pub(crate) mod solver;
pub(crate) mod stores;
