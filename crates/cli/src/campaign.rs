//! `failsketch campaign`: one diagnosis in a terminal, and what a developer can do
//! about it. `failsketch failures` lists them all.

use crate::connection::Connection;
use anyhow::{Context, Result};
use sketch_model::CampaignSummary;
use viewer::{printable, printable_json};

#[derive(clap::Subcommand)]
pub enum Command {
    /// Show the state of a diagnosis
    Show(Arguments),
    /// Stop tracking; the sketch stays as it is
    Stop(Arguments),
    /// Resume tracking where it stopped
    Resume(Arguments),
    /// Track twice as many statements now
    Widen(Arguments),
    /// Keep tracking these statements; add no more
    Pin(Arguments),
    /// Add statements again when these do not explain the failure
    Unpin(Arguments),
    /// Accept the sketch as the explanation and end the diagnosis
    Declare(Arguments),
}

#[derive(clap::Args)]
pub struct Arguments {
    /// The campaign's number, as `failsketch failures` lists it.
    campaign: u64,
    #[command(flatten)]
    connection: Connection,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

#[derive(clap::Args)]
pub struct FailuresArguments {
    #[command(flatten)]
    connection: Connection,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

pub fn run(command: Command) -> Result<()> {
    let (verb, arguments) = match command {
        Command::Show(arguments) => (None, arguments),
        Command::Stop(arguments) => (Some("stop"), arguments),
        Command::Resume(arguments) => (Some("resume"), arguments),
        Command::Widen(arguments) => (Some("widen"), arguments),
        Command::Pin(arguments) => (Some("pin"), arguments),
        Command::Unpin(arguments) => (Some("unpin"), arguments),
        Command::Declare(arguments) => (Some("declare"), arguments),
    };
    let path = format!("/api/v1/campaigns/{}", arguments.campaign);
    let answer = match verb {
        None => arguments.connection.get(&path)?,
        Some(verb) => arguments.connection.post(&format!("{path}/{verb}"))?,
    };
    let campaign: CampaignSummary =
        serde_json::from_str(&answer).context("the server's answer about the campaign")?;
    if arguments.json {
        println!(
            "{}",
            printable_json(&serde_json::to_string_pretty(&campaign)?)
        );
    } else {
        print!("{}", described(&campaign));
    }
    Ok(())
}

pub fn failures(arguments: &FailuresArguments) -> Result<()> {
    let campaigns = arguments.connection.get("/api/v1/campaigns")?;
    let campaigns: Vec<CampaignSummary> =
        serde_json::from_str(&campaigns).context("the server's list of campaigns")?;
    if arguments.json {
        println!(
            "{}",
            printable_json(&serde_json::to_string_pretty(&campaigns)?)
        );
        return Ok(());
    }
    if campaigns.is_empty() {
        println!("no failure has been reported yet");
    }
    for campaign in campaigns {
        print!("{}", described(&campaign));
    }
    Ok(())
}

fn described(campaign: &CampaignSummary) -> String {
    let mut text = format!(
        "{:>4}  {:<10} σ={:<4} {:>6} of {:>7} runs failed  {}: {}\n",
        campaign.id.0,
        campaign.state.to_string(),
        campaign.sigma,
        campaign.failures,
        campaign.runs,
        printable(&campaign.program),
        printable(&campaign.title)
    );
    if campaign.pinned {
        text.push_str("      pinned: σ stays as it is\n");
    }
    if let Some(best) = &campaign.best {
        text.push_str(&format!(
            "      F {:.2}: {}\n",
            best.f_measure,
            printable(&best.sentence)
        ));
    }
    if let Some(problem) = &campaign.problem {
        text.push_str(&format!("      {}\n", printable(problem)));
    }
    text
}
