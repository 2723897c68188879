//! The first σ statements of a slice as hooks, and what to watch.
//!
//! Watchpoints are scarce, so the locations of the failing statement get one
//! first, then the others in slice order. A slot is aimed by every tracked
//! access of its location, just before the access: whoever comes first arms it.
//! What finds no slot is named in the plan.
//!
//! This is the part of a plan that follows from the slice alone. What needs the
//! program (branches, synchronisation on the way, pruning) and the split over
//! the fleet are in [`crate::plan_iteration`].

use sketch_model::{
    Capabilities, LocationName, Purpose, Schema, Site, SiteId, Slice, SliceEntry, TrackPoint,
    TrackingPlan, WATCH_SLOTS,
};

/// The plan for a given σ. Same slice, same σ, same discoveries: same plan.
pub fn plan(slice: &Slice, sigma: u32, discovered: &[SliceEntry]) -> TrackingPlan {
    let mut tracked: Vec<&SliceEntry> = slice.entries.iter().take(sigma as usize).collect();
    for entry in discovered {
        if !tracked.iter().any(|t| t.statement.id == entry.statement.id) {
            tracked.push(entry);
        }
    }
    let mut wanted: Vec<&LocationName> = Vec::new();
    for point in tracked.iter().flat_map(|entry| &entry.points) {
        let name = point.location.as_ref().filter(|_| watchable(point));
        if let Some(name) = name.filter(|name| !wanted.contains(name)) {
            wanted.push(name);
        }
    }
    let (watched, unwatched) = wanted.split_at(wanted.len().min(WATCH_SLOTS));
    let mut sites = Vec::new();
    for entry in &tracked {
        for point in &entry.points {
            let slot = point.location.as_ref().filter(|_| watchable(point));
            let slot = slot.and_then(|name| watched.iter().position(|w| *w == name));
            sites.push(Site {
                id: SiteId(sites.len() as u32),
                statement: entry.statement.id,
                kind: point.kind,
                column: point.column,
                location: point.location.clone(),
                size: point.size,
                arm_slot: slot.map(|slot| slot as u8),
                purpose: Purpose::Statement,
                caller: None,
            });
        }
    }
    TrackingPlan {
        schema: Schema::default(),
        build: slice.build.clone(),
        sigma,
        variant: 0,
        wants: match watched.is_empty() {
            true => Capabilities::hooks(),
            false => Capabilities::watchpoints(),
        },
        statements: tracked.iter().map(|e| e.statement.clone()).collect(),
        beside: Vec::new(),
        sites,
        implied: Vec::new(),
        watched: watched.iter().map(|name| (*name).clone()).collect(),
        unwatched: unwatched.iter().map(|name| (*name).clone()).collect(),
        promoted: Vec::new(),
        audit: false,
    }
}

fn watchable(point: &TrackPoint) -> bool {
    can_watch(point.size, &point.location)
}

/// Whether an access is of a named location of a size that the hardware watches.
pub(crate) fn can_watch(size: u32, location: &Option<LocationName>) -> bool {
    matches!(size, 1 | 2 | 4 | 8) && !matches!(location, None | Some(LocationName::Unnamed))
}
