//! What is tracked of a slice, and how: points, hooks that others make needless, watched locations, plans.
//!
//! [`iteration`] is the entry, and says which file decides what.

pub(crate) mod branch_facts;
pub(crate) mod branch_points;
pub(crate) mod by_caller;
pub(crate) mod fleet;
pub(crate) mod hot_buffers;
pub(crate) mod implied;
pub(crate) mod iteration;
pub(crate) mod order_points;
pub(crate) mod plan;
pub(crate) mod points;
pub(crate) mod promotion;
pub(crate) mod watch_split;
