//! What a tracked build records: the first σ statements of a slice as hooks,
//! with the branches that lead to them and the synchronisation on the way.
//!
//! Deliberately absent: how points are chosen (`slicer`) and where they end up
//! in optimised code (`instrumenter`). The text form and the difference of two
//! plans are in `plan_text`.

pub(crate) mod text;

use crate::{
    BuildId, Capabilities, Capability, LocationName, PointKind, Schema, SiteId, Statement,
    StatementId,
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// The hardware offers four watchpoints a thread.
pub const WATCH_SLOTS: usize = 4;

/// Why a hook is there.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum Purpose {
    /// It is a point of a tracked statement.
    #[default]
    Statement,
    /// A branch that decides whether a tracked statement is reached.
    ControlFlow,
    /// A synchronisation call on the way: it orders threads, and no more.
    Order,
}

/// One hook: a track point of a tracked statement, or of one beside it.
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
    /// Only [`Purpose::Statement`] counts for σ.
    #[serde(default)]
    pub purpose: Purpose,
    /// Of an access in a small function that is called from many places: only
    /// where the call in this statement was inlined.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub caller: Option<StatementId>,
}

/// What the record of a site proves about a statement without one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Witness {
    /// The statement ran just before the site; nothing recorded lies between.
    JustBefore(SiteId),
    /// The statement ran before the site: it dominates the site.
    Before(SiteId),
    /// The statement runs after the site, unless the thread ends first: it
    /// postdominates the site.
    After(SiteId),
}

impl Witness {
    pub fn site(self) -> SiteId {
        match self {
            Witness::JustBefore(site) | Witness::Before(site) | Witness::After(site) => site,
        }
    }
}

/// A tracked statement without a hook of its own, and whose record tells of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Implied {
    pub statement: StatementId,
    /// Any one of them suffices.
    pub by: Vec<Witness>,
}

/// A plan is a value: same slice, same σ, same plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TrackingPlan {
    #[serde(default)]
    pub schema: Schema,
    pub build: BuildId,
    /// How many statements of the slice, nearest first, are tracked.
    pub sigma: u32,
    /// Which of the plans for this σ it is. All have the same hooks; they
    /// differ in what they watch.
    #[serde(default)]
    pub variant: u32,
    /// What a machine must offer for all of this plan to work.
    #[serde(default = "Capabilities::watchpoints", rename = "tier")]
    pub wants: Capabilities,
    /// The tracked statements: the slice's first σ, then those that watchpoints discovered.
    pub statements: Vec<Statement>,
    /// Statements that are not tracked and have a hook for another purpose.
    #[serde(default)]
    pub beside: Vec<Statement>,
    pub sites: Vec<Site>,
    /// Tracked statements that other sites tell of.
    #[serde(default)]
    pub implied: Vec<Implied>,
    /// The location each watchpoint slot follows; at most [`WATCH_SLOTS`].
    pub watched: Vec<LocationName>,
    /// Locations that this plan does not watch and another variant, or none, does.
    pub unwatched: Vec<LocationName>,
    /// Locations that have given up their slot: hooks record every access that a
    /// watchpoint ever found. Only an audit plan still watches them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub promoted: Vec<LocationName>,
    /// Meant for few runs: it watches promoted locations, to see whether
    /// anything touches them that has no hook.
    #[serde(default, skip_serializing_if = "is_false")]
    pub audit: bool,
}

fn is_false(flag: &bool) -> bool {
    !flag
}

impl TrackingPlan {
    pub fn site(&self, id: SiteId) -> Option<&Site> {
        // Sites are numbered by position; a plan from the network may not be.
        self.sites
            .get(id.0 as usize)
            .filter(|s| s.id == id)
            .or_else(|| self.sites.iter().find(|s| s.id == id))
    }

    /// All sites of the access that a site is of, itself among them: they differ
    /// in who calls.
    pub fn copies<'a>(&'a self, site: &'a Site) -> impl Iterator<Item = &'a Site> {
        self.sites.iter().filter(move |other| {
            (other.statement, other.kind, other.column) == (site.statement, site.kind, site.column)
        })
    }

    pub fn tracks(&self, id: StatementId) -> bool {
        self.statements.iter().any(|s| s.id == id)
    }

    /// Whether the processor's trace tells the ways of branches, so that they
    /// need no hook.
    pub fn traces_branches(&self) -> bool {
        self.wants.has(Capability::IntelPt)
    }

    /// Whether a site is to be hooked.
    pub fn is_hooked(&self, site: &Site) -> bool {
        !(self.traces_branches() && site.kind == PointKind::Branch)
    }

    /// Every statement that has a hook or is tracked without one.
    pub fn all_statements(&self) -> impl Iterator<Item = &Statement> {
        self.statements.iter().chain(&self.beside)
    }
}

/// An access that a hook must record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Need {
    pub statement: StatementId,
    pub writes: bool,
}

/// A location that may hand over to hooks, and those that must take over.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Promotion {
    pub location: LocationName,
    pub needs: BTreeSet<Need>,
}

/// Where the hooks of a plan ended up after optimisation.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Placement {
    /// For each site by number: in how many places of the code its hook stands.
    /// None means that the optimiser left nothing to hook.
    pub places: Vec<u32>,
    /// Branches of which some outcomes pass no hook, and sites that are not hooked in
    /// all functions they were inlined into: what their hooks saw is right, what they
    /// did not see may have happened. In order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub partial: Vec<SiteId>,
}

impl Placement {
    pub fn is_placed(&self, site: SiteId) -> bool {
        self.places.get(site.0 as usize).is_some_and(|n| *n > 0)
    }

    /// Whether a hook of this site that did not record something proves that it
    /// did not happen.
    pub fn tells_all(&self, site: SiteId) -> bool {
        self.is_placed(site) && self.partial.binary_search(&site).is_err()
    }

    /// Adds where hooks stand in another part of the program.
    pub fn add(&mut self, other: &Placement) {
        let sites = self.places.len().max(other.places.len());
        self.places.resize(sites, 0);
        for (total, more) in self.places.iter_mut().zip(&other.places) {
            *total += more;
        }
        self.partial.extend(&other.partial);
        self.partial.sort_unstable();
        self.partial.dedup();
    }
}
