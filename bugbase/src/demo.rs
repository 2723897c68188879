//! `./dev demo`: one bug, live, from crash to picture.

use crate::corpus::bug;
use crate::corpus::folder::emptied;
use crate::eval::diagnosis::{Diagnosis, follow};
use crate::fleet::{Fleet, prepare};
use crate::tools::Tools;
use anyhow::{Context, Result, bail};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::mpsc::channel;
use std::time::Duration;

#[derive(clap::Args)]
pub struct Arguments {
    /// The bug, by the name of its folder.
    #[arg(default_value = "pbzip2")]
    bug: String,
    /// Write sketch.html, sketch.json and sketch.txt and end.
    #[arg(long)]
    once: bool,
    /// How many agents run the program at the same time.
    #[arg(long, default_value_t = 3)]
    agents: u32,
    /// Give up after so many seconds.
    #[arg(long, default_value_t = 240)]
    patience: u64,
    /// Where everything is written; emptied first.
    #[arg(long, default_value = "target/demo")]
    folder: PathBuf,
}

pub fn run(arguments: &Arguments) -> Result<()> {
    let mut bug = bug::named(&arguments.bug)?;
    let tools = Tools::find()?;
    let folder = emptied(&arguments.folder)?;
    println!("{}: {} ({})", bug.name, bug.summary, bug.kind);
    println!("building and registering it with `failsketch cc` and `failsketch register`");
    let prepared = prepare(&tools, &mut bug, &folder)?;
    let mut fleet = Fleet::start(&tools, &bug, &prepared, &folder, arguments.agents)?;
    println!(
        "server at {}; {} agents run it until the failure explains itself",
        fleet.api.url, arguments.agents
    );
    let (interrupt, interrupted) = channel();
    ctrlc::set_handler(move || {
        let _ = interrupt.send(());
    })?;
    // The fleet is a child of this value: whichever way this function ends, it ends.
    let patience = Duration::from_secs(arguments.patience);
    let diagnosis = follow(&bug, &mut fleet, patience, || {
        interrupted.try_recv().is_ok()
    })
    .with_context(|| format!("logs are in {}", folder.display()))?;
    fleet.dismiss_agents();
    let page = format!("{}/campaigns/{}", fleet.api.url, diagnosis.campaign.id);
    write_outputs(&tools, &fleet, &diagnosis, &folder)?;
    print!("{}", show(&tools, &fleet, &diagnosis, true)?);
    if arguments.once {
        println!(
            "written: {}/sketch.{{html,json,txt}}",
            arguments.folder.display()
        );
        return Ok(());
    }
    println!("the page: {page}\nCtrl-C ends the demo");
    interrupted.recv().context("waiting for Ctrl-C")
}

fn write_outputs(tools: &Tools, fleet: &Fleet, diagnosis: &Diagnosis, folder: &Path) -> Result<()> {
    let id = diagnosis.campaign.id;
    let page = fleet.api.text(&format!("/campaigns/{id}/export/html"))?;
    fs::write(folder.join("sketch.html"), page)?;
    let json = serde_json::to_string_pretty(&diagnosis.sketch)?;
    fs::write(folder.join("sketch.json"), json + "\n")?;
    fs::write(
        folder.join("sketch.txt"),
        show(tools, fleet, diagnosis, false)?,
    )?;
    Ok(())
}

/// The sketch as `failsketch sketch show` prints it.
fn show(tools: &Tools, fleet: &Fleet, diagnosis: &Diagnosis, for_terminal: bool) -> Result<String> {
    let mut command = Command::new(&tools.failsketch);
    command
        .args(["sketch", "show", "--server", &fleet.api.url])
        .arg(diagnosis.campaign.id.to_string());
    if !for_terminal {
        command.args(["--color", "never", "--width", "100"]);
    }
    let output = command.output().context("showing the sketch")?;
    if !output.status.success() {
        bail!("{}", String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
