//! Build tools without LLVM: one program with a race on `mut`, in six statements.
//!
//! The consumer reads `mut` (line 120) while main sets it to NULL (line 210).
//! Statement ids are positions in the slice, static addresses are 0x1000 plus
//! the line, and a tracked build's bytes name its plan.

use build_analysis::{BuildError, BuildTools, TrackedBinary, Unlocated, locate};
use diagnosis::campaign::LocatedFailure;
use formats::address_map::{AddressMap, CodeFrame, LineRow};
use formats::statement_map::LoadedSegments;
use sketch_model::{
    BuildId, Capabilities, DependenceKind, FailureReport, LocationName, Placement, PointKind,
    Slice, SliceEntry, Statement, StatementId, SyncOp, TrackPoint, TrackingPlan, Why,
};
use slicer::{Iteration, PlanRequest};
use std::sync::Arc;
use test_support::records;

pub const BUILD: &str = "abcdef0123456789";

/// The lines of the program, nearest to the failure first, with their function
/// and what can be recorded there.
pub const LINES: [(u32, &str); 6] = [
    (120, "consumer"),
    (210, "main"),
    (118, "consumer"),
    (205, "main"),
    (110, "consumer"),
    (200, "main"),
];

#[derive(Clone, Default)]
pub struct Double {
    /// σ below this has nothing to hook.
    pub hookable_from: u32,
    /// Plans that watch something, beside the one that does not.
    pub watching: u32,
    /// Whether the first plan watches `mut`.
    pub watches_mut: bool,
    /// What building fails with.
    pub broken: Option<String>,
    /// Building never ends.
    pub stuck: bool,
}

pub fn build() -> BuildId {
    BuildId(BUILD.into())
}

pub fn statement(line: u32) -> Option<Statement> {
    let position = LINES.iter().position(|(l, _)| *l == line)?;
    let function = LINES[position].1;
    Some(Statement {
        text: format!("line {line};"),
        ..records::statement(position as u32, function, "/src/pbzip2.c", line)
    })
}

fn point(line: u32) -> TrackPoint {
    let access = |kind, name: &str| TrackPoint {
        kind,
        column: 5,
        location: Some(LocationName::Global(name.into())),
        size: 8,
    };
    let other = |kind| TrackPoint {
        kind,
        column: 5,
        location: None,
        size: 0,
    };
    match line {
        120 => access(PointKind::Load, "mut"),
        210 => access(PointKind::Store, "mut"),
        118 => other(PointKind::Branch),
        205 => other(PointKind::Sync(SyncOp::ThreadJoin)),
        _ => other(PointKind::Call),
    }
}

pub fn slice() -> Slice {
    let entry = |(position, (line, function)): (usize, &(u32, &str))| SliceEntry {
        statement: statement(*line).unwrap(),
        distance: position as u32,
        why: (position > 0).then_some(Why {
            kind: DependenceKind::Memory,
            parent: StatementId(0),
        }),
        roles: vec![(*function).to_owned()],
        points: vec![point(*line)],
    };
    Slice {
        schema: Slice::SCHEMA,
        build: build(),
        entries: LINES.iter().enumerate().map(entry).collect(),
        gaps: Vec::new(),
    }
}

pub fn deployed(sigma: u32) -> Vec<u8> {
    let line = format!("the program, tracked with sigma {sigma}\n");
    line.repeat(200).into_bytes()
}

/// Addresses are lines: 0x1000 + line.
fn address_map() -> AddressMap {
    let row = |(line, function): &(u32, &str)| LineRow {
        from: 0x1000 + u64::from(*line),
        to: 0x1001 + u64::from(*line),
        column: 0,
        frames: vec![CodeFrame {
            function: Some((*function).to_owned()),
            file: Some("/src/pbzip2.c".to_owned()),
            line: Some(*line),
        }],
    };
    AddressMap::new(
        vec![build()],
        LoadedSegments::default(),
        Vec::new(),
        LINES.iter().map(row).collect(),
        |_, _, line| statement(line).map(|statement| statement.id),
    )
}

impl BuildTools for Double {
    fn program_name(&self, asked: &BuildId) -> Result<String, BuildError> {
        if *asked == build() {
            Ok("pbzip2".into())
        } else {
            Err(BuildError::UnknownBuild(asked.clone()))
        }
    }

    fn address_map(
        &self,
        _: &BuildId,
        tracked: Option<&[u8]>,
    ) -> Result<Arc<AddressMap>, BuildError> {
        assert!(tracked.is_none_or(|bytes| bytes.starts_with(b"full ")));
        Ok(Arc::new(address_map()))
    }

    fn statement(&self, _: &BuildId, id: StatementId) -> Option<Statement> {
        statement(LINES.get(id.0 as usize)?.0)
    }

    fn locate(
        &self,
        build: &BuildId,
        report: &FailureReport,
        code: &AddressMap,
    ) -> Result<LocatedFailure, Unlocated> {
        locate(report, code, |id| self.statement(build, id), |_, _| 0)
    }

    fn slice(&self, _: &BuildId, failure: &LocatedFailure) -> Result<Slice, BuildError> {
        let mut slice = slice();
        // Another failure has its own statement first.
        slice
            .entries
            .sort_by_key(|e| (e.statement.id != failure.failing.id, e.distance));
        Ok(slice)
    }

    /// The program has six statements.
    fn first_sigma(&self) -> u32 {
        2
    }

    fn plan(&self, _: &BuildId, slice: &Slice, ask: &PlanRequest) -> Result<Iteration, BuildError> {
        let sigma = ask.sigma;
        let tracked = &slice.entries[..(sigma as usize).min(slice.entries.len())];
        let site = |(number, entry): (usize, &SliceEntry)| {
            let (point, statement) = (&entry.points[0], entry.statement.id.0);
            let location = point.location.clone();
            records::site(number as u32, statement, point.kind, point.column, location)
        };
        let watching = |this: bool| match self.watches_mut && this {
            true => vec![LocationName::Global("mut".into())],
            false => Vec::new(),
        };
        let plan = |variant: u32| TrackingPlan {
            build: build(),
            sigma,
            variant,
            statements: tracked.iter().map(|e| e.statement.clone()).collect(),
            sites: tracked.iter().enumerate().map(site).collect(),
            watched: watching(variant == 0),
            unwatched: watching(variant != 0),
            ..records::plan(match variant < self.watching {
                true => Capabilities::watchpoints(),
                false => Capabilities::hooks(),
            })
        };
        let plans = (0..=self.watching).map(plan).collect();
        Ok(Iteration::new(plans, ask))
    }

    fn track(&self, _: &BuildId, plan: &TrackingPlan) -> Result<TrackedBinary, BuildError> {
        if self.stuck {
            // Only the end of the process ends this.
            loop {
                std::thread::park();
            }
        }
        if let Some(problem) = &self.broken {
            return Err(BuildError::Tracking(problem.clone()));
        }
        if plan.sigma < self.hookable_from {
            return Err(BuildError::NothingToHook);
        }
        Ok(TrackedBinary {
            full: [b"full ".as_slice(), &deployed(plan.sigma)].concat(),
            deployed: deployed(plan.sigma),
            placement: Placement {
                places: vec![1; plan.sites.len()],
                ..Placement::default()
            },
        })
    }

    fn deployed(&self, _: &BuildId) -> Result<Vec<u8>, BuildError> {
        Ok(deployed(0))
    }
}
