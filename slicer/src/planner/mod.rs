//! What is tracked of a slice, and how: points, hooks that others make needless, watched locations, plans.
//!
//! [`plan`] chooses the points of one σ, [`watch_split`] spreads the watched
//! locations over several plans, [`promotion`] takes back what hooks record anyway.

pub(crate) mod branch_facts;
pub(crate) mod branch_points;
pub(crate) mod by_caller;
pub(crate) mod hot_buffers;
pub(crate) mod implied;
pub(crate) mod order_points;
pub(crate) mod plan;
pub(crate) mod points;
pub(crate) mod promotion;
pub(crate) mod watch_split;
