//! `failsketch sketch show ID --watch`: follows a campaign until it is over.
//!
//! In a terminal each newer sketch replaces the one before, under a line that
//! says how far the diagnosis is. Into a file or a pipe, a line is written for
//! each change and the sketch once, at the end: what is read there is read later.

use crate::sketch::{ShowArguments, find, shown};
use anyhow::{Context, Result, bail};
use sketch_model::CampaignSummary;
use std::io::{IsTerminal, Write};
use std::time::Duration;

const BETWEEN_LOOKS: Duration = Duration::from_secs(1);
/// Clears the screen and begins at its top.
const AFRESH: &str = "\x1b[H\x1b[2J\x1b[3J";

pub fn run(arguments: &ShowArguments) -> Result<()> {
    let Some(campaign) = arguments.which.campaign else {
        bail!("name the campaign to follow");
    };
    let mut out = std::io::stdout();
    let terminal = out.is_terminal();
    let (mut said, mut drawn) = (String::new(), None);
    loop {
        let path = format!("/api/v1/campaigns/{campaign}");
        let answer = arguments.which.connection.get(&path)?;
        let summary: CampaignSummary =
            serde_json::from_str(&answer).context("the server's answer about the campaign")?;
        let over = summary.state.is_over();
        let line = progress(&summary);
        if terminal && (line != said || summary.sketch_version != drawn) {
            let sketch = match summary.sketch_version {
                Some(_) => shown(&find(&arguments.which)?, arguments)?,
                None => String::new(),
            };
            write!(out, "{AFRESH}{line}\n\n{sketch}")?;
            drawn = summary.sketch_version;
        } else if line != said {
            writeln!(out, "{line}")?;
        }
        out.flush()?;
        said = line;
        if over {
            break;
        }
        std::thread::sleep(BETWEEN_LOOKS);
    }
    if !terminal {
        write!(out, "\n{}", shown(&find(&arguments.which)?, arguments)?)?;
    }
    Ok(())
}

fn progress(c: &CampaignSummary) -> String {
    let problem = c
        .problem
        .as_deref()
        .map(|p| format!(": {}", viewer::printable(p)));
    format!(
        "{} · iteration {} · σ {} · {} failing, {} successful tracked runs · {} of {} runs failed{}",
        c.state,
        c.iteration,
        c.sigma,
        c.tracked_failing,
        c.tracked_successful,
        c.failures,
        c.runs,
        problem.unwrap_or_default()
    )
}
