//! One bug from first failure to a settled sketch, with a live progress line.

use crate::api::Campaign;
use crate::bug::Bug;
use crate::fleet::Fleet;
use anyhow::{Result, bail};
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::Value;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// A sketch is an answer from this F on.
pub const GOOD_F: f64 = 0.8;

/// The end of a diagnosis.
pub struct Diagnosis {
    pub campaign: Campaign,
    /// The sketch as the server gave it.
    pub sketch: Value,
}

/// Waits until a campaign has settled on a predictor of at least [`GOOD_F`], or
/// until `interrupted` says that nobody waits any more.
pub fn follow(
    bug: &Bug,
    fleet: &mut Fleet,
    patience: Duration,
    interrupted: impl Fn() -> bool,
) -> Result<Diagnosis> {
    let line = ProgressBar::new_spinner();
    line.set_style(ProgressStyle::with_template(
        "{spinner} {elapsed:>4} {wide_msg}",
    )?);
    line.enable_steady_tick(Duration::from_millis(100));
    let deadline = Instant::now() + patience;
    let mut last = String::from("no failure yet");
    while Instant::now() < deadline {
        let campaigns = fleet.api.campaigns()?;
        if let Some(leading) = campaigns.iter().max_by(|a, b| f_of(a).total_cmp(&f_of(b))) {
            last = progress(leading);
        }
        line.set_message(format!("{}: {last}", bug.name));
        if let Some(done) = campaigns
            .iter()
            .find(|c| c.state == "settled" && f_of(c) >= GOOD_F)
        {
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
            bail!("all agents have ended and no campaign reached F ≥ {GOOD_F} ({last})");
        }
        sleep(Duration::from_millis(150));
    }
    line.finish_and_clear();
    bail!(
        "no sketch with F ≥ {GOOD_F} within {} s ({last})",
        patience.as_secs()
    )
}

/// Waits until the agents have ended by themselves, or patience has.
pub fn finished_or(fleet: &mut Fleet, patience: Duration) {
    let deadline = Instant::now() + patience;
    while fleet.is_running() && Instant::now() < deadline {
        sleep(Duration::from_millis(150));
    }
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
