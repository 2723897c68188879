//! Branches as they were written, found again in optimised code.

pub(crate) mod branch_marks;
pub(crate) mod flow;
pub(crate) mod outcomes;
pub(crate) mod source_branches;
pub(crate) mod unrecorded_paths;
