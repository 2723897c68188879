//! `failsketch plan`: what a tracked build of a σ would record, for people.
//!
//! Prints the plans that the server would make for a failure at a statement, or
//! what changes from one σ to another. Nothing is built.

use crate::at_statement::AtStatement;
use anyhow::{Result, bail};
use build_analysis::LoadedBuild;
use clap::ValueEnum;
use sketch_model::{Slice, TrackingPlan};
use slicer::{Extent, PlanRequest};
use viewer::{printable_json, printable_lines};

#[derive(clap::Args)]
pub struct Arguments {
    #[command(flatten)]
    statement: AtStatement,
    /// How many statements of the slice are tracked, nearest first.
    #[arg(long, default_value_t = 2)]
    sigma: u32,
    /// Print only the plan of this number: 0 watches the nearest locations, the last one none.
    #[arg(long)]
    variant: Option<u32>,
    /// Compare with this σ: print what it adds, removes and moves, plan by plan.
    #[arg(long, value_name = "SIGMA")]
    diff: Option<u32>,
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

#[derive(Clone, Copy, PartialEq, ValueEnum)]
enum Format {
    Text,
    Json,
}

pub fn run(arguments: &Arguments) -> Result<()> {
    let loaded = arguments.statement.loaded()?;
    let criteria = arguments.statement.criteria(loaded.program())?;
    let farthest = arguments.sigma.max(arguments.diff.unwrap_or(0));
    let slice = loaded.slice(&criteria, Extent::enough_for(farthest as usize));
    let plans = chosen(&loaded, &slice, arguments.sigma, arguments.variant)?;
    match (arguments.diff, arguments.format) {
        (Some(_), Format::Json) => bail!("a difference is text; leave out `--format json`"),
        (Some(sigma), Format::Text) => {
            let others = chosen(&loaded, &slice, sigma, arguments.variant)?;
            print!("{}", printable_lines(&difference(&plans, &others)));
        }
        (None, Format::Json) => {
            println!("{}", printable_json(&serde_json::to_string_pretty(&plans)?));
        }
        (None, Format::Text) => {
            let texts: Vec<String> = plans.iter().map(ToString::to_string).collect();
            print!("{}", printable_lines(&texts.join("\n")));
        }
    }
    Ok(())
}

fn chosen(
    loaded: &LoadedBuild,
    slice: &Slice,
    sigma: u32,
    variant: Option<u32>,
) -> Result<Vec<TrackingPlan>> {
    let mut plans = loaded.plan(slice, &PlanRequest::all(sigma)).plans;
    let count = plans.len();
    plans.retain(|plan| variant.is_none_or(|wanted| plan.variant == wanted));
    if plans.is_empty() {
        bail!("σ {sigma} has the plans 0 to {}", count - 1);
    }
    Ok(plans)
}

/// What each plan becomes; a plan that only one σ has is compared with the one
/// that watches nothing.
fn difference(from: &[TrackingPlan], to: &[TrackingPlan]) -> String {
    let mut text = String::new();
    for number in 0..from.len().max(to.len()) {
        let pick = |plans: &[TrackingPlan]| plans.get(number).or(plans.last()).cloned();
        if let (Some(old), Some(new)) = (pick(from), pick(to)) {
            text.push_str(&format!(
                "plan {} (sigma {}, variant {}) -> {} (sigma {}, variant {})\n{}",
                old.version(),
                old.sigma,
                old.variant,
                new.version(),
                new.sigma,
                new.variant,
                old.diff(&new)
            ));
        }
    }
    text
}
