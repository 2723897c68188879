//! Plans whose watched locations have handed over to hooks.
//!
//! A watchpoint discovers which statements touch a location; once each of them
//! has a hook, the hooks tell the same for a thousandth of the price, and the
//! slot is free for a location of which less is known. Such a location is
//! *promoted*: the plans of the iteration do not watch it.
//!
//! One further plan, the audit plan, watches the first four promoted locations.
//! It is meant for few runs: a statement that the runs so far never reached is
//! then still found. It comes last, after the plan that watches nothing.
//!
//! Deliberately absent: which locations deserve it. That follows from what runs
//! have shown (`crates/diagnosis/src/campaign/promotion.rs`).

use crate::planner::watch_split::watching;
use sketch_model::{LocationName, TrackingPlan, WATCH_SLOTS};

/// The same plans with `promoted` locations watched by an audit plan alone.
/// Locations that no plan wants watched are ignored.
pub fn promote(plans: Vec<TrackingPlan>, promoted: &[LocationName]) -> Vec<TrackingPlan> {
    let Some(quiet) = plans.iter().find(|plan| plan.watched.is_empty()) else {
        return plans;
    };
    let (promoted, wanted): (Vec<LocationName>, Vec<LocationName>) = quiet
        .unwatched
        .iter()
        .cloned()
        .partition(|location| promoted.contains(location));
    if promoted.is_empty() {
        return plans;
    }
    let mut whole = quiet.clone();
    whole.promoted = promoted;
    let mut split: Vec<TrackingPlan> = wanted
        .chunks(WATCH_SLOTS)
        .map(|watched| watching(&whole, &wanted, watched))
        .collect();
    split.push(watching(&whole, &wanted, &[]));
    let audited = &whole.promoted[..whole.promoted.len().min(WATCH_SLOTS)];
    split.push(TrackingPlan {
        audit: true,
        ..watching(&whole, &wanted, audited)
    });
    for (number, plan) in split.iter_mut().enumerate() {
        plan.variant = number as u32;
    }
    split
}
