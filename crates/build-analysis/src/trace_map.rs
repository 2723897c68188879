//! What a trace of one binary is read with: its code, its statements by address,
//! and its branches by their jumps.
//!
//! Made once for P and once for each tracked build of it; all share the
//! statements of the build, which depend on its bitcode alone.

use pt_decoder::{BranchMap, BranchPlaces, StatementMap, StatementMapError};
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

impl TraceMap {
    pub fn new(
        build: &BuildId,
        binary: Vec<u8>,
        program: &Program,
    ) -> Result<TraceMap, StatementMapError> {
        let statements = StatementMap::new(&binary, |function, file, line| {
            program.statement_at(function, file, line)
        })?;
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
