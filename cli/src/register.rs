//! `failsketch register`: proves a binary, keeps it, and says what came of it.

use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use build_store::{BuildManifest, ForeignCode, ModuleStatus, NewModule, Progress};
use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use sketch_model::BuildId;

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
            bar.set_message(file_name(&module).to_string());
        }
        Progress::Storing => bar.set_message("storing"),
    };
    // In a process of its own: damaged bitcode may take LLVM's reader down.
    let make = |build: &BuildId, modules: &[NewModule<'_>]| {
        crate::graph::make(build, modules).map_err(|error| format!("{error:#}"))
    };
    let result = store.register_with_graph(&arguments.binary, &mut show, &make);
    bar.finish_and_clear();
    let build = result?;
    if let Some(out) = &arguments.deploy {
        write_program(out, &build.deployed()?)
            .with_context(|| format!("{} could not be written", out.display()))?;
    }
    print!("{}", summary(build.manifest(), store.root()));
    if let Some(out) = &arguments.deploy {
        println!("deploy   {}", out.display());
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

/// What a user wants to know after registering: a few lines, reasons included.
fn summary(manifest: &BuildManifest, root: &Path) -> String {
    use std::fmt::Write;

    let mut text = String::new();
    let untrackable = manifest.modules.len() - manifest.trackable_modules();
    let mut line = |label: &str, value: String| {
        let _ = writeln!(text, "{label:<8} {value}");
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
            format!("the program cannot be linked again: of its link line, {reason}"),
        );
    } else if manifest.link.is_none() {
        line(
            "",
            "the link line was not recorded: the program cannot be linked again".to_string(),
        );
    }
    line("sources", manifest.sources.len().to_string());
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
