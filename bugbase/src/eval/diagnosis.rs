//! One bug from first failure to a settled sketch, with a live progress line.
//!
//! [`follow`] wants an answer and calls anything else an error: the demo. [`watch`]
//! takes whatever there is at the end: the evaluation.

use crate::api::Campaign;
use crate::corpus::bug::Bug;
use crate::fleet::Fleet;
use anyhow::{Result, bail};
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::Value;
use std::cmp::Ordering;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Of what did not settle: whether its best predictor says anything.
pub const GOOD_F: f64 = 0.8;

/// The end of a diagnosis.
pub struct Diagnosis {
    pub campaign: Campaign,
    /// The sketch as the server gave it.
    pub sketch: Value,
}

/// Waits until a campaign has settled, or
/// until `interrupted` says that nobody waits any more.
pub fn follow(
    bug: &Bug,
    fleet: &mut Fleet,
    patience: Duration,
    interrupted: impl Fn() -> bool,
) -> Result<Diagnosis> {
    let line = progress_line()?;
    let deadline = Instant::now() + patience;
    let mut last = String::from("no failure yet");
    while Instant::now() < deadline {
        let campaigns = fleet.api.campaigns()?;
        if let Some(leading) = campaigns.iter().max_by(|a, b| f_of(a).total_cmp(&f_of(b))) {
            last = progress(leading);
        }
        line.set_message(format!("{}: {last}", bug.name));
        if let Some(done) = campaigns.iter().find(|c| c.state == "settled") {
            line.finish_and_clear();
            let text = fleet
                .api
                .text(&format!("/api/v1/campaigns/{}/sketch", done.id))?;
            return Ok(Diagnosis {
                campaign: done.clone(),
                sketch: serde_json::from_str(&text)?,
            });
        }
        // Another failure of the program may be beyond diagnosis; it stops
        // nobody while one goes on.
        let going_on = |c: &Campaign| ["preparing", "tracking"].contains(&c.state.as_str());
        let failed = campaigns.iter().find(|c| c.state == "failed");
        if let Some(failed) = failed.filter(|_| !campaigns.iter().any(going_on)) {
            let problem = failed.problem.as_deref().unwrap_or("no reason given");
            bail!("the diagnosis of {} failed: {problem}", failed.title);
        }
        if interrupted() {
            bail!("interrupted ({last})");
        }
        if !fleet.is_running() {
            bail!("all agents have ended and no campaign settled ({last})");
        }
        sleep(Duration::from_millis(150));
    }
    line.finish_and_clear();
    bail!(
        "no campaign settled within {} s ({last})",
        patience.as_secs()
    )
}

/// When a diagnosis is given up.
pub struct Limits {
    pub time: Duration,
    pub runs: u64,
}

/// How a diagnosis ended, whatever came of it.
pub enum Ending {
    /// A campaign settled.
    Settled(Diagnosis),
    /// The best that there was when a limit was hit or nothing went on any more.
    GivenUp(Option<Diagnosis>, String),
}

impl Ending {
    pub fn diagnosis(&self) -> Option<&Diagnosis> {
        match self {
            Ending::Settled(diagnosis) => Some(diagnosis),
            Ending::GivenUp(diagnosis, _) => diagnosis.as_ref(),
        }
    }
}

/// The last sketch of an iteration, and what it rests on.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    pub campaign: u64,
    pub iteration: u32,
    pub sigma: u32,
    pub failures: u64,
    /// Tracked failing runs; a sketch is drawn anew when there are more.
    pub tracked_failing: u64,
    pub sketch: Value,
}

/// Follows the campaigns of a bug to an end, and keeps the last sketch of each
/// iteration of the leading one in `seen`. An error is one of the harness.
pub fn watch(
    bug: &Bug,
    fleet: &mut Fleet,
    limits: &Limits,
    seen: &mut Vec<Seen>,
    interrupted: impl Fn() -> bool,
) -> Result<Ending> {
    let line = progress_line()?;
    let deadline = Instant::now() + limits.time;
    loop {
        let campaigns = fleet.api.campaigns()?;
        let leading = campaigns.iter().max_by(|a, b| {
            let rank = |c: &Campaign| (c.state == "settled", f_of(c), c.failures);
            rank(a).partial_cmp(&rank(b)).unwrap_or(Ordering::Equal)
        });
        let shown = leading.map_or("no failure yet".to_owned(), progress);
        line.set_message(format!("{}: {shown}", bug.name));
        if let Some(leading) = leading {
            look_at(leading, fleet, seen)?;
        }
        if let Some(done) = leading.filter(|c| c.state == "settled") {
            line.finish_and_clear();
            return Ok(match sketch_of(done, fleet)? {
                Some(diagnosis) => Ending::Settled(diagnosis),
                None => Ending::GivenUp(None, "the campaign settled without a sketch".into()),
            });
        }
        if interrupted() {
            bail!("interrupted ({shown})");
        }
        let runs = campaigns.iter().map(|c| c.runs).max().unwrap_or(0);
        let going_on = |c: &Campaign| ["preparing", "tracking"].contains(&c.state.as_str());
        let reason = if Instant::now() >= deadline {
            Some(format!(
                "time limit of {} s ({shown})",
                limits.time.as_secs()
            ))
        } else if runs >= limits.runs {
            Some(format!("limit of {} runs ({shown})", limits.runs))
        } else if !fleet.is_running() {
            Some(format!("the agents ended ({shown})"))
        } else if !campaigns.is_empty() && !campaigns.iter().any(going_on) {
            let problem = campaigns.iter().find_map(|c| c.problem.clone());
            Some(problem.unwrap_or(format!("no campaign is active any more ({shown})")))
        } else {
            None
        };
        if let Some(reason) = reason {
            line.finish_and_clear();
            let last = match leading {
                Some(campaign) => sketch_of(campaign, fleet)?,
                None => None,
            };
            return Ok(Ending::GivenUp(last, reason));
        }
        sleep(Duration::from_millis(150));
    }
}

/// Keeps the campaign's sketch as the last one of its iteration.
fn look_at(campaign: &Campaign, fleet: &Fleet, seen: &mut Vec<Seen>) -> Result<()> {
    let same = |known: &Seen| {
        known.campaign == campaign.id
            && known.iteration == campaign.iteration
            && known.tracked_failing == campaign.tracked_failing
    };
    if campaign.tracked_failing == 0 || seen.last().is_some_and(same) {
        return Ok(());
    }
    let Some(diagnosis) = sketch_of(campaign, fleet)? else {
        return Ok(());
    };
    seen.retain(|known| known.campaign == campaign.id && known.iteration != campaign.iteration);
    seen.push(Seen {
        campaign: campaign.id,
        iteration: campaign.iteration,
        sigma: campaign.sigma,
        failures: campaign.failures,
        tracked_failing: campaign.tracked_failing,
        sketch: diagnosis.sketch,
    });
    Ok(())
}

/// A campaign's sketch, if it has one yet.
fn sketch_of(campaign: &Campaign, fleet: &Fleet) -> Result<Option<Diagnosis>> {
    let path = format!("/api/v1/campaigns/{}/sketch", campaign.id);
    let Ok(text) = fleet.api.text(&path) else {
        return Ok(None);
    };
    Ok(Some(Diagnosis {
        campaign: campaign.clone(),
        sketch: serde_json::from_str(&text)?,
    }))
}

fn progress_line() -> Result<ProgressBar> {
    let line = ProgressBar::new_spinner();
    line.set_style(ProgressStyle::with_template(
        "{spinner} {elapsed:>4} {wide_msg}",
    )?);
    line.enable_steady_tick(Duration::from_millis(100));
    Ok(line)
}

fn f_of(campaign: &Campaign) -> f64 {
    campaign.best.as_ref().map_or(0.0, |best| best.f_measure)
}

fn progress(campaign: &Campaign) -> String {
    let best = campaign.best.as_ref().map_or_else(
        || "no predictor yet".to_owned(),
        |best| format!("best {} predictor F {:.2}", best.class, best.f_measure),
    );
    format!(
        "{} runs, {} failures · σ = {}, iteration {} ({}): {} failing, {} successful · {best}",
        campaign.runs,
        campaign.failures,
        campaign.sigma,
        campaign.iteration,
        campaign.state,
        campaign.tracked_failing,
        campaign.tracked_successful,
    )
}
