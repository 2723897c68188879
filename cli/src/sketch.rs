//! `failsketch sketch show` and `failsketch failures`: what the server knows, in a terminal.

use anyhow::{Context, Result, bail};
use clap::ValueEnum;
use sketch_model::{CampaignSummary, FailureSketch};
use std::io::IsTerminal;
use std::path::PathBuf;

const DEFAULT_SERVER: &str = "http://127.0.0.1:7420";
const NARROWEST: u16 = 60;

#[derive(clap::Subcommand)]
pub enum Command {
    /// Print a failure sketch.
    Show(ShowArguments),
}

#[derive(clap::Args)]
pub struct ShowArguments {
    /// The campaign's number, as `failsketch failures` lists it.
    #[arg(required_unless_present = "file")]
    campaign: Option<u64>,
    /// The server to ask.
    #[arg(long, env = "FAILSKETCH_SERVER", default_value = DEFAULT_SERVER)]
    server: String,
    /// Read the sketch from a JSON file instead.
    #[arg(long, conflicts_with = "campaign")]
    file: Option<PathBuf>,
    /// An earlier version of the sketch.
    #[arg(long)]
    version: Option<u32>,
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
    /// Columns to fit into; the terminal's by default.
    #[arg(long)]
    width: Option<u16>,
    #[arg(long, value_enum, default_value_t = Color::Auto)]
    color: Color,
}

#[derive(Clone, Copy, ValueEnum)]
enum Format {
    Text,
    Markdown,
    Html,
    Json,
}

#[derive(Clone, Copy, ValueEnum)]
enum Color {
    Auto,
    Always,
    Never,
}

#[derive(clap::Args)]
pub struct FailuresArguments {
    /// The server to ask.
    #[arg(long, env = "FAILSKETCH_SERVER", default_value = DEFAULT_SERVER)]
    server: String,
}

pub fn run(command: Command) -> Result<()> {
    let Command::Show(arguments) = command;
    let sketch = match (&arguments.file, arguments.campaign) {
        (Some(file), _) => std::fs::read_to_string(file)
            .with_context(|| format!("{} cannot be read", file.display()))?,
        (None, Some(campaign)) => {
            let version = arguments
                .version
                .map(|v| format!("?version={v}"))
                .unwrap_or_default();
            let path = format!("/api/v1/campaigns/{campaign}/sketch{version}");
            get(&arguments.server, &path)?
        }
        (None, None) => bail!("name a campaign, or a sketch with --file"),
    };
    let sketch: FailureSketch =
        serde_json::from_str(&sketch).context("this is not a failure sketch")?;
    sketch.schema.check("failure sketch")?;
    match arguments.format {
        Format::Text => {
            let color = match arguments.color {
                Color::Always => true,
                Color::Never => false,
                Color::Auto => std::io::stdout().is_terminal(),
            };
            let width = arguments.width.unwrap_or_else(terminal_width);
            print!("{}", viewer::text(&sketch, usize::from(width), color));
        }
        Format::Markdown => print!("{}", viewer::markdown(&sketch)),
        Format::Html => print!("{}", viewer::standalone(&sketch)),
        Format::Json => println!("{}", serde_json::to_string_pretty(&sketch)?),
    }
    Ok(())
}

pub fn failures(arguments: &FailuresArguments) -> Result<()> {
    let campaigns = get(&arguments.server, "/api/v1/campaigns")?;
    let campaigns: Vec<CampaignSummary> =
        serde_json::from_str(&campaigns).context("the server's list of campaigns")?;
    if campaigns.is_empty() {
        println!("no failure has been reported yet");
    }
    for campaign in campaigns {
        println!(
            "{:>4}  {:<10} σ={:<4} {:>6} of {:>7} runs failed  {}: {}",
            campaign.id.0,
            campaign.state.to_string(),
            campaign.sigma,
            campaign.failures,
            campaign.runs,
            campaign.program,
            campaign.title
        );
        if let Some(best) = &campaign.best {
            println!("      F {:.2}: {}", best.f_measure, best.sentence);
        }
        if let Some(problem) = &campaign.problem {
            println!("      {problem}");
        }
    }
    Ok(())
}

fn terminal_width() -> u16 {
    terminal_size::terminal_size().map_or(100, |(width, _)| width.0.max(NARROWEST))
}

/// A document of the server; its own sentence if it refuses.
fn get(server: &str, path: &str) -> Result<String> {
    let url = format!("{}{path}", server.trim_end_matches('/'));
    let agent: ureq::Agent = ureq::Agent::config_builder()
        .http_status_as_error(false)
        .build()
        .into();
    let mut response = agent
        .get(&url)
        .call()
        .with_context(|| format!("no server answers at {server}; start one with `failsketch serve` or name it with --server"))?;
    let body = response.body_mut().read_to_string()?;
    if response.status().is_success() {
        return Ok(body);
    }
    let said = serde_json::from_str::<serde_json::Value>(&body)
        .ok()
        .and_then(|v| v["error"].as_str().map(str::to_owned));
    bail!(
        "{}",
        said.unwrap_or_else(|| format!("{url} answered {}", response.status()))
    )
}
