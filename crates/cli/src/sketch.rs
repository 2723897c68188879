//! Sketches in a terminal and as files: `failsketch sketch`.

use crate::connection::Connection;
use crate::watch;
use anyhow::{Context, Result, bail};
use clap::ValueEnum;
use sketch_model::FailureSketch;
use std::io::{IsTerminal, Write};
use std::path::PathBuf;

const NARROWEST: u16 = 60;

#[derive(clap::Subcommand)]
pub enum Command {
    /// Print a failure sketch.
    Show(ShowArguments),
    /// Export a failure sketch to a file.
    Export(ExportArguments),
}

/// The sketch to show.
#[derive(clap::Args)]
pub struct Which {
    /// The campaign's number, as `failsketch failures` lists it.
    #[arg(required_unless_present = "file")]
    pub campaign: Option<u64>,
    #[command(flatten)]
    pub connection: Connection,
    /// Read the sketch from a JSON file instead.
    #[arg(long, conflicts_with = "campaign")]
    file: Option<PathBuf>,
    /// An earlier version of the sketch.
    #[arg(long)]
    version: Option<u32>,
}

#[derive(clap::Args)]
pub struct ShowArguments {
    #[command(flatten)]
    pub which: Which,
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
    /// The width in columns; the terminal's by default.
    #[arg(long)]
    width: Option<u16>,
    #[arg(long, value_enum, default_value_t = Color::Auto)]
    color: Color,
    /// Keep running, and show each newer sketch until the diagnosis is over.
    #[arg(long, conflicts_with_all = ["file", "version", "format"])]
    watch: bool,
}

#[derive(clap::Args)]
pub struct ExportArguments {
    #[command(flatten)]
    which: Which,
    #[arg(long, value_enum, default_value_t = Format::Html)]
    format: Format,
    /// The file to write; standard output by default.
    #[arg(long, short)]
    output: Option<PathBuf>,
    /// The width of a text export in columns.
    #[arg(long, default_value_t = 120)]
    width: u16,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// Plain text, as in a terminal.
    Text,
    /// Text with the terminal's colours.
    Ansi,
    /// Markdown, for a ticket.
    Markdown,
    /// One self-contained HTML file.
    Html,
    /// One SVG picture.
    Svg,
    Json,
    /// A profile that KCachegrind opens.
    Callgrind,
}

#[derive(Clone, Copy, ValueEnum)]
enum Color {
    Auto,
    Always,
    Never,
}

pub fn run(command: Command) -> Result<()> {
    match command {
        Command::Show(arguments) if arguments.watch => watch::run(&arguments),
        Command::Show(arguments) => {
            let sketch = find(&arguments.which)?;
            print!("{}", shown(&sketch, &arguments)?);
            Ok(())
        }
        Command::Export(arguments) => export(&arguments),
    }
}

/// The sketch as the arguments want it, for this terminal.
pub fn shown(sketch: &FailureSketch, arguments: &ShowArguments) -> Result<String> {
    let color = match arguments.color {
        Color::Always => true,
        Color::Never => false,
        Color::Auto => std::io::stdout().is_terminal(),
    };
    let width = usize::from(arguments.width.unwrap_or_else(terminal_width));
    let format = match arguments.format {
        Format::Text if color => Format::Ansi,
        format => format,
    };
    rendered(sketch, format, width)
}

fn rendered(sketch: &FailureSketch, format: Format, width: usize) -> Result<String> {
    Ok(match format {
        Format::Text => viewer::text(sketch, width, false),
        Format::Ansi => viewer::text(sketch, width, true),
        Format::Markdown => viewer::markdown(sketch),
        Format::Html => viewer::standalone(sketch),
        Format::Svg => viewer::svg(sketch),
        Format::Json => viewer::printable_json(&serde_json::to_string_pretty(sketch)?) + "\n",
        Format::Callgrind => viewer::callgrind(sketch),
    })
}

fn export(arguments: &ExportArguments) -> Result<()> {
    let sketch = find(&arguments.which)?;
    let text = rendered(&sketch, arguments.format, usize::from(arguments.width))?;
    match &arguments.output {
        Some(file) => std::fs::write(file, text).with_context(|| {
            format!(
                "{} cannot be written; choose another file with --output",
                file.display()
            )
        }),
        None => Ok(std::io::stdout().write_all(text.as_bytes())?),
    }
}

/// The sketch that is meant, from the server or a file.
pub fn find(which: &Which) -> Result<FailureSketch> {
    let sketch = match (&which.file, which.campaign) {
        (Some(file), _) => std::fs::read_to_string(file)
            .with_context(|| format!("{} cannot be read", file.display()))?,
        (None, Some(campaign)) => {
            let version = which
                .version
                .map(|v| format!("?version={v}"))
                .unwrap_or_default();
            let path = format!("/api/v1/campaigns/{campaign}/sketch{version}");
            which.connection.get(&path)?
        }
        (None, None) => bail!("name a campaign, or a sketch with --file"),
    };
    let sketch: FailureSketch =
        serde_json::from_str(&sketch).context("this is not a failure sketch")?;
    sketch.schema.check("failure sketch")?;
    Ok(sketch)
}

fn terminal_width() -> u16 {
    terminal_size::terminal_size().map_or(100, |(width, _)| width.0.max(NARROWEST))
}
