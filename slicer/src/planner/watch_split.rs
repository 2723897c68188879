//! What the plans of one σ watch: the same hooks, different locations.
//!
//! The hardware watches four locations. Where more want watching, the fleet
//! shares them: each plan watches the next four in slice order, so that every
//! location is watched by exactly one. The last plan watches nothing and is for
//! machines without watchpoints. Hooks are the same in all, so that what an
//! agent records by hooks means the same whichever plan it runs.

use crate::planner::plan::can_watch;
use sketch_model::{Capabilities, LocationName, Site, TrackingPlan, WATCH_SLOTS};

/// One plan for each four of the locations that want watching, and one without.
pub(crate) fn split(whole: &TrackingPlan) -> Vec<TrackingPlan> {
    let wanted: Vec<LocationName> = whole
        .watched
        .iter()
        .chain(&whole.unwatched)
        .cloned()
        .collect();
    let mut plans: Vec<TrackingPlan> = wanted
        .chunks(WATCH_SLOTS)
        .map(|watched| watching(whole, &wanted, watched))
        .collect();
    plans.push(watching(whole, &wanted, &[]));
    for (number, plan) in plans.iter_mut().enumerate() {
        plan.variant = number as u32;
    }
    plans
}

pub(crate) fn watching(
    whole: &TrackingPlan,
    wanted: &[LocationName],
    watched: &[LocationName],
) -> TrackingPlan {
    let slot = |site: &Site| -> Option<u8> {
        let name = site
            .location
            .as_ref()
            .filter(|_| can_watch(site.size, &site.location))?;
        let slot = watched.iter().position(|w| w == name)?;
        u8::try_from(slot).ok()
    };
    let mut plan = whole.clone();
    for site in &mut plan.sites {
        site.arm_slot = slot(site);
    }
    plan.wants = match watched.is_empty() {
        true => Capabilities::hooks(),
        false => Capabilities::watchpoints(),
    };
    plan.watched = watched.to_vec();
    let elsewhere = wanted.iter().filter(|name| !watched.contains(name));
    plan.unwatched = elsewhere.cloned().collect();
    plan
}
