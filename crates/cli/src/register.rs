//! `failsketch register`: proves a binary, keeps it, and says what came of it.

use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use build_analysis::BitcodeReader;
use build_store::sandbox::Sandbox;
use build_store::tools::Tools;
use build_store::{
    BuildManifest, ForeignCode, ModuleStatus, NewModule, Progress, RegisterOptions, Roots,
};
use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use sketch_model::BuildId;
use viewer::printable;

#[derive(Args)]
pub struct RegisterArguments {
    /// The program as the linker wrote it
    binary: PathBuf,
    /// The build store (default: $FAILSKETCH_STORE, else the user's data folder)
    #[arg(long, value_name = "DIR")]
    store: Option<PathBuf>,
    /// Also write the program to deploy, without debug info and bitcode
    #[arg(long, value_name = "OUT")]
    deploy: Option<PathBuf>,
    /// The folder of the program's own sources (default: the one that all compile folders
    /// and sources share, if the binary or the current folder is in it)
    #[arg(long, value_name = "DIR")]
    root: Option<PathBuf>,
    /// Another folder of own sources; may be given several times
    #[arg(long, value_name = "DIR")]
    also: Vec<PathBuf>,
    /// Run compiler and linker without a sandbox, on a machine that has no Landlock.
    /// Only for binaries that you trust: their flags and bitcode reach the compiler
    #[arg(long)]
    without_sandbox: bool,
    /// For how many hours the compiler and other tools may run, all together
    #[arg(long, default_value_t = Tools::TIME.as_secs_f64() / 3600.0, value_parser = hours)]
    hours: f64,
}

fn hours(text: &str) -> Result<f64, String> {
    const MOST: f64 = 10_000.0;
    match text.parse() {
        Ok(hours) if hours > 0.0 && hours <= MOST => Ok(hours),
        _ => Err(format!("not a number of hours above 0 and up to {MOST}")),
    }
}

impl RegisterArguments {
    fn options(&self) -> RegisterOptions {
        RegisterOptions {
            roots: Roots {
                root: self.root.clone(),
                also: self.also.clone(),
            },
            sandbox: match self.without_sandbox {
                true => Sandbox::Without,
                false => Sandbox::Required,
            },
            time: Duration::from_secs_f64(self.hours * 3600.0),
        }
    }
}

pub fn run(arguments: &RegisterArguments) -> Result<()> {
    let store = crate::open_store(arguments.store.as_ref())?;
    // Drawn on standard error, and only if that is a terminal.
    let bar = ProgressBar::new(0).with_style(ProgressStyle::with_template(
        "{msg:30!} [{bar:30}] {pos}/{len} modules",
    )?);
    let mut show = |progress| match progress {
        Progress::Proving {
            done,
            total,
            module,
        } => {
            bar.set_length(total as u64);
            bar.set_position(done as u64);
            bar.set_message(printable(file_name(&module)));
        }
        Progress::Storing => bar.set_message("storing"),
    };
    // In a process of its own: damaged bitcode may take LLVM's reader down.
    let options = arguments.options();
    for folder in options.roots.root.iter().chain(&options.roots.also) {
        anyhow::ensure!(folder.is_dir(), "{} is not a folder", folder.display());
    }
    let reader = BitcodeReader::this();
    let make = |build: &BuildId, modules: &[NewModule<'_>], tools: &Tools| {
        let graph = reader.graph(build, modules, tools);
        graph.map_err(|error| error.to_string())
    };
    let result = store.register_with_graph(&arguments.binary, &options, &mut show, &make);
    bar.finish_and_clear();
    let build = result?;
    if let Some(out) = &arguments.deploy {
        write_program(out, &build.deployed()?)
            .with_context(|| format!("{} could not be written", out.display()))?;
    }
    print!("{}", summary(build.manifest(), store.root()));
    if let Some(out) = &arguments.deploy {
        println!("deploy   {}", printable(&out.display().to_string()));
    }
    Ok(())
}

fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// Writes an executable file beside its place and renames it.
fn write_program(path: &Path, bytes: &[u8]) -> Result<()> {
    let folder = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let mut file = tempfile::Builder::new()
        .permissions(std::fs::Permissions::from_mode(0o755))
        .tempfile_in(folder)?;
    file.write_all(bytes)?;
    file.persist(path)?;
    Ok(())
}

/// Files without text that the summary names.
const LEFT_OUT_NAMED: usize = 5;

/// What a user wants to know after registering: a few lines, reasons included. Names and
/// reasons hold words of the file, so nothing in them acts on a terminal.
fn summary(manifest: &BuildManifest, root: &Path) -> String {
    use std::fmt::Write;

    let mut text = String::new();
    let untrackable = manifest.modules.len() - manifest.trackable_modules();
    let mut line = |label: &str, value: String| {
        let _ = writeln!(text, "{label:<8} {}", printable(&value));
    };
    line("program", manifest.program.clone());
    line("build", manifest.build_id.to_string());
    let mut modules = format!("{} proven", manifest.trackable_modules());
    if untrackable > 0 {
        modules += &format!(", {untrackable} untrackable");
    }
    line("modules", modules);
    for module in &manifest.modules {
        if let ModuleStatus::Untrackable { reason } = &module.status {
            line("", format!("{} is untrackable: {reason}", module.source));
        }
    }
    for code in &manifest.foreign_code {
        line("", format!("untrackable: {}", describe(code)));
    }
    if let Some(reason) = &manifest.link_refused {
        line(
            "",
            format!("the program cannot be linked again: in its link line, {reason}"),
        );
    } else if manifest.link.is_none() {
        line(
            "",
            "the link line was not recorded: the program cannot be linked again".to_string(),
        );
    }
    line("sources", manifest.sources.len().to_string());
    let left_out: Vec<_> = manifest.left_out().collect();
    for (file, reason) in left_out.iter().take(LEFT_OUT_NAMED) {
        line("", format!("left out: {file} ({reason})"));
    }
    if left_out.len() > LEFT_OUT_NAMED {
        let more = left_out.len() - LEFT_OUT_NAMED;
        line(
            "",
            format!("and {more} more; `failsketch builds --json` lists all"),
        );
    }
    if manifest.without_sandbox {
        line("sandbox", "none (--without-sandbox)".to_string());
    }
    line("store", root.display().to_string());
    text
}

fn describe(code: &ForeignCode) -> String {
    let shown: Vec<&str> = code.functions.iter().take(3).map(String::as_str).collect();
    let more = code.function_count - shown.len();
    let mut functions = shown.join(", ");
    if more > 0 {
        functions += &format!(" and {more} more");
    }
    let origin = code.origin.as_deref().unwrap_or("of unknown origin");
    format!("{origin} ({}): {functions}", code.reason)
}
