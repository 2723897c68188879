//! `failsketch builds`: lists the registered builds.

use std::path::PathBuf;

use anyhow::Result;
use build_store::BuildManifest;
use clap::Args;
use viewer::{printable, printable_json};

#[derive(Args)]
pub struct BuildsArguments {
    /// The build store (default: $FAILSKETCH_STORE, else the user's data folder)
    #[arg(long, value_name = "DIR")]
    store: Option<PathBuf>,
    /// Print the manifests as JSON
    #[arg(long)]
    json: bool,
}

pub fn run(arguments: &BuildsArguments) -> Result<()> {
    let store = crate::open_store(arguments.store.as_ref())?;
    let manifests = store.list()?;
    if arguments.json {
        println!(
            "{}",
            printable_json(&serde_json::to_string_pretty(&manifests)?)
        );
    } else if manifests.is_empty() {
        println!(
            "No builds in {}; add one with `failsketch register BINARY`.",
            store.root().display()
        );
    } else {
        print!("{}", table(&manifests));
    }
    Ok(())
}

fn table(manifests: &[BuildManifest]) -> String {
    let mut rows = vec![["PROGRAM", "BUILD", "MODULES", "SOURCES", "PATH"].map(str::to_string)];
    rows.extend(manifests.iter().map(|manifest| {
        [
            printable(&manifest.program),
            printable(&manifest.build_id.0),
            format!(
                "{}/{} proven{}",
                manifest.trackable_modules(),
                manifest.modules.len(),
                match manifest.without_sandbox {
                    true => ", without sandbox",
                    false => "",
                }
            ),
            manifest.sources.len().to_string(),
            printable(&manifest.original_path.display().to_string()),
        ]
    }));
    let widths: Vec<usize> = (0..rows[0].len())
        .map(|column| {
            let cells = rows.iter().map(|row| row[column].chars().count());
            cells.max().unwrap_or(0)
        })
        .collect();
    let mut text = String::new();
    for row in &rows {
        let cells: Vec<String> = row
            .iter()
            .zip(&widths)
            .map(|(cell, width)| format!("{cell:<width$}"))
            .collect();
        text += cells.join("  ").trim_end();
        text.push('\n');
    }
    text
}
