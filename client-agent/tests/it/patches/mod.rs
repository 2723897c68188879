//! Tracked builds: which are run, which are refused, and what they may cost.

mod governor;
mod refused_builds;
mod tracked_builds;
