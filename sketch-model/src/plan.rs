//! What a tracked build records: the first σ statements of a slice as hooks.

use crate::{BuildId, LocationName, PointKind, Schema, Statement};
use serde::{Deserialize, Serialize};

use crate::{SiteId, StatementId};

/// The hardware offers four watchpoints a thread.
pub const WATCH_SLOTS: usize = 4;

/// One hook: a track point of a tracked statement.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Site {
    pub id: SiteId,
    pub statement: StatementId,
    pub kind: PointKind,
    pub column: u32,
    pub location: Option<LocationName>,
    pub size: u32,
    /// The watchpoint slot that this access aims at its own address before it
    /// runs, if the plan watches its location.
    pub arm_slot: Option<u8>,
}

/// A plan is a value: same slice, same σ, same plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TrackingPlan {
    #[serde(default)]
    pub schema: Schema,
    pub build: BuildId,
    /// How many statements of the slice, nearest first, are tracked.
    pub sigma: u32,
    /// The tracked statements: the slice's first σ, then those that watchpoints discovered.
    pub statements: Vec<Statement>,
    pub sites: Vec<Site>,
    /// The location each watchpoint slot follows; at most [`WATCH_SLOTS`].
    pub watched: Vec<LocationName>,
    /// Locations that wanted a watchpoint and found no free slot.
    pub unwatched: Vec<LocationName>,
}

impl TrackingPlan {
    pub fn site(&self, id: SiteId) -> Option<&Site> {
        // Sites are numbered by position; a plan from the network may not be.
        self.sites
            .get(id.0 as usize)
            .filter(|s| s.id == id)
            .or_else(|| self.sites.iter().find(|s| s.id == id))
    }

    pub fn tracks(&self, id: StatementId) -> bool {
        self.statements.iter().any(|s| s.id == id)
    }
}

/// Where the hooks of a plan ended up after optimisation.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Placement {
    /// For each site by number: in how many places of the code its hook stands.
    /// None means that the optimiser left nothing to hook.
    pub places: Vec<u32>,
}

impl Placement {
    pub fn is_placed(&self, site: SiteId) -> bool {
        self.places.get(site.0 as usize).is_some_and(|n| *n > 0)
    }
}
