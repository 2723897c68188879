//! Where in the optimised code the statements of a plan are.

pub(crate) mod eliminated_inlines;
pub(crate) mod hosts;
pub(crate) mod locate;
pub(crate) mod merged_accesses;
pub(crate) mod place;
pub(crate) mod source_stores;
