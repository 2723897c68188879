//! `failsketch patch`: the tracked build for a statement, as a signed patch in a file.
//!
//! What the server does for each iteration of a diagnosis, by hand: for trying out
//! what a plan costs before a fleet runs it (`failsketch-agent run --patch`), and for
//! benchmarks. The key is the one of a server's data folder, so that agents that
//! trust the server trust the patch.

use crate::at_statement::AtStatement;
use crate::timings::Timings;
use anyhow::{Context, Result, bail};
use clap::ValueEnum;
use serde_json::{Value, json};
use server_files::private_files::make_private_folder;
use server_files::signing_key::load_or_make;
use sketch_model::{Capabilities, PointKind, Site, SourceLocation, TrackingPlan};
use slicer::{Alias, Extent, PlanRequest, plan_iteration, slice_from};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// For how long agents accept it.
const LIFE: Duration = Duration::from_secs(24 * 3600);

#[derive(clap::Args)]
pub struct Arguments {
    #[command(flatten)]
    statement: AtStatement,
    /// How many statements of the slice are tracked, nearest first.
    #[arg(long, default_value_t = 2, conflicts_with = "whole")]
    sigma: u32,
    /// Track the whole slice.
    #[arg(long)]
    whole: bool,
    /// The number of the plan: 0 watches the nearest locations, the last one none.
    #[arg(long, default_value_t = 0)]
    variant: u32,
    /// Record only control flow or only data flow, to measure what each costs.
    #[arg(long, value_enum)]
    only: Option<Half>,
    /// The server's data folder with the signing key; the key is made if it is missing.
    #[arg(long, value_name = "DIR")]
    data: PathBuf,
    /// The patch file to write.
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    /// Also write the tracked program itself.
    #[arg(long, value_name = "FILE")]
    tracked: Option<PathBuf>,
    /// Print the result and the cost of each phase, as JSON.
    #[arg(long)]
    json: bool,
}

/// What of a plan is recorded.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Half {
    /// Branches and calls.
    ControlFlow,
    /// Accesses, synchronisation and watchpoints.
    DataFlow,
}

pub fn run(arguments: &Arguments) -> Result<()> {
    let mut timings = Timings::start();
    let loaded = arguments.statement.loaded()?;
    timings.ended("graph");
    // The build does not hold the text of its lines.
    let source = |_: &SourceLocation| None;
    let criteria = arguments.statement.criteria(loaded.program())?;
    let extent = match arguments.whole {
        true => Extent::Whole,
        false => Extent::enough_for(arguments.sigma as usize),
    };
    let alias = Alias::default();
    let slice = slice_from(loaded.program(), &criteria, alias, extent, &source);
    timings.ended("slice");
    let whole = u32::try_from(slice.entries.len()).unwrap_or(u32::MAX);
    let sigma = if arguments.whole {
        whole
    } else {
        arguments.sigma.min(whole)
    };
    let ask = PlanRequest::all(sigma);
    let plans = plan_iteration(loaded.program(), &slice, &ask, &source).plans;
    let count = plans.len();
    let mut plans = plans.into_iter();
    let Some(mut plan) = plans.find(|plan| plan.variant == arguments.variant) else {
        bail!("σ {sigma} has the plans 0 to {}", count - 1);
    };
    if let Some(half) = arguments.only {
        plan = only(plan, half);
    }
    timings.ended("plan");
    let tracked = instrumenter::track(loaded.registered(), &plan)?;
    timings.ended("track");
    make_private_folder(&arguments.data)
        .with_context(|| format!("creating {}", arguments.data.display()))?;
    let signing = load_or_make(&arguments.data)?;
    let patch = code_patch::make(
        &loaded.registered().deployed()?,
        &tracked.deployed,
        code_patch::Terms {
            build: plan.build.clone(),
            variant: None,
            version: 1,
            expires: (now() + LIFE).as_secs(),
            watches_nothing: plan.watched.is_empty(),
        },
        &signing.secret,
    )?;
    timings.ended("patch");
    write(&arguments.out, &patch)?;
    if let Some(file) = &arguments.tracked {
        write(file, &tracked.deployed)?;
        fs::set_permissions(file, fs::Permissions::from_mode(0o755))?;
    }
    let placed = tracked.placement.places.iter().filter(|n| **n > 0).count();
    if arguments.json {
        let mut report = timings.report(&[
            ("slice_statements", whole as usize),
            ("sigma", sigma as usize),
            ("sites", plan.sites.len()),
            ("placed", placed),
            ("watched", plan.watched.len()),
            ("patch_bytes", patch.len()),
            ("base_bytes", loaded.registered().deployed()?.len()),
        ]);
        report["way"] = json!(tracked.way.to_string());
        report["hooks"] = json!(
            plan.sites
                .iter()
                .map(|s| described(&plan, s))
                .collect::<Vec<_>>()
        );
        println!("{report}");
        return Ok(());
    }
    println!(
        "{}: {} bytes; σ = {sigma} of {whole}, {placed} of {} hooks placed, {} locations watched, {}",
        arguments.out.display(),
        patch.len(),
        plan.sites.len(),
        plan.watched.len(),
        tracked.way
    );
    println!(
        "run it: failsketch-agent run --patch {} --key {} -- PROGRAM",
        arguments.out.display(),
        arguments.data.join("signing.pub").display()
    );
    Ok(())
}

/// Where a hook stands, for whoever reads records of the build.
fn described(plan: &TrackingPlan, site: &Site) -> Value {
    let statement = plan.all_statements().find(|s| s.id == site.statement);
    let location = statement.map(|statement| &statement.location);
    let caller = plan.all_statements().find(|s| Some(s.id) == site.caller);
    json!({
        "site": site.id,
        "kind": site.kind,
        "file": location.map(|location| &location.file),
        "line": location.map(|location| location.line),
        "called_at": caller.map(|caller| caller.location.line),
    })
}

/// The plan with one half of its hooks.
fn only(mut plan: TrackingPlan, half: Half) -> TrackingPlan {
    let control = |kind: PointKind| matches!(kind, PointKind::Branch | PointKind::Call);
    let kept = |kind: PointKind| control(kind) == (half == Half::ControlFlow);
    plan.sites.retain(|site| kept(site.kind));
    // Sites are numbered by position.
    for (number, site) in (0u32..).zip(&mut plan.sites) {
        site.id.0 = number;
    }
    // Nobody diagnoses by this build: whom a site tells of does not matter.
    plan.implied.clear();
    if half == Half::ControlFlow {
        plan.wants = Capabilities::hooks();
        plan.unwatched.append(&mut plan.watched);
    }
    plan
}

fn write(file: &Path, bytes: &[u8]) -> Result<()> {
    fs::write(file, bytes).with_context(|| format!("{} could not be written", file.display()))
}

fn now() -> Duration {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default()
}
