//! What a trace of one binary is read with: its code, its statements by address,
//! and its branches by their jumps.
//!
//! Made once for P and once for each tracked build of it; all share the
//! statements of the build, which depend on its bitcode alone.

use formats::address_map::AddressMap;
use formats::statement_map::StatementMap;
use pt_decoder::{BranchMap, BranchPlaces};
use sketch_model::{BuildId, Placement, PointKind, TrackingPlan};
use slicer::{BranchSides, Program};

/// One binary, ready for traces.
pub struct TraceMap {
    /// As perf names it: a tracked build has a build-id of its own.
    pub id: BuildId,
    /// With its debug info. Its code lies where it lies in the deployed file.
    pub binary: Vec<u8>,
    pub statements: StatementMap,
    pub branches: BranchMap,
}

/// A binary without statements.
#[derive(Debug, thiserror::Error)]
#[error("the binary has no line table; build it with `failsketch cc` and register it")]
pub struct TraceMapError;

impl TraceMap {
    /// `map` is that of `binary`.
    pub fn new(
        build: &BuildId,
        binary: Vec<u8>,
        map: &AddressMap,
        program: &Program,
    ) -> Result<TraceMap, TraceMapError> {
        let statements = map.statements().clone();
        if statements.is_empty() {
            return Err(TraceMapError);
        }
        let sides: Vec<BranchPlaces> = program.branch_sides().into_iter().map(places).collect();
        let branches = BranchMap::new(&binary, &statements, &sides);
        Ok(TraceMap {
            id: formats::elf::build_id(&binary).unwrap_or_else(|| build.clone()),
            binary,
            statements,
            branches,
        })
    }

    /// The placement of a plan whose branches are told by the trace.
    pub fn place_branches(&self, plan: &TrackingPlan, placement: &mut Placement) {
        placement.places.resize(plan.sites.len(), 0);
        for (site, places) in plan.sites.iter().zip(&mut placement.places) {
            if site.kind == PointKind::Branch {
                *places = self.branches.jumps_of(site.statement, site.column);
            }
        }
    }
}

fn places(sides: BranchSides) -> BranchPlaces {
    BranchPlaces {
        statement: sides.statement,
        column: sides.column,
        ways: sides.places,
        statements: sides.statements,
    }
}
