//! Programs that come from Debian's source packages, with our patches.
//!
//! Fetching and building is `real-programs.sh`'s work, which keeps what it made: a
//! second evaluation finds the program built and registered. Faulty and fixed
//! program are both built by the wrapper; that its code is that of plain clang-19 is
//! what `./dev eval --build-only` checks.

use crate::corpus::bug::Bug;
use crate::corpus::program::Variant;
use anyhow::{Context, Result, bail, ensure};
use std::path::{Path, PathBuf};
use std::process::Command;

pub struct Built {
    /// The patched sources.
    pub tree: PathBuf,
    pub binary: PathBuf,
    /// As it is deployed, if it was registered.
    pub deployed: PathBuf,
    /// The build store that it is registered in.
    pub store: PathBuf,
}

/// Where `real-programs.sh` keeps everything.
pub fn cache() -> PathBuf {
    if let Some(folder) = std::env::var_os("REAL_PROGRAMS") {
        return folder.into();
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or(root.join("target"), PathBuf::from);
    target.join("real-programs")
}

/// Builds a bug's package, and registers it if that is asked for.
pub fn build(failsketch: &Path, bug: &Bug, variant: Variant, register: bool) -> Result<Built> {
    let name = match variant {
        Variant::Faulty => bug.name.clone(),
        Variant::Fixed => format!("{}-fixed", bug.name),
    };
    let mut patches = bug.build.patches.clone();
    if variant == Variant::Faulty {
        patches.extend(bug.build.fault.clone());
    }
    build_as(failsketch, bug, &name, &patches, register)
}

/// The same with the variant's name given: "tsan" and "functions" choose the compiler.
pub fn build_as(
    failsketch: &Path,
    bug: &Bug,
    name: &str,
    patches: &[String],
    register: bool,
) -> Result<Built> {
    let package = bug.build.package.as_deref();
    let package = package.with_context(|| format!("{} is not of a package", bug.name))?;
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("real-programs.sh");
    let mut command = Command::new(&script);
    command.args(["--variant", package, name]);
    if let Some(recipe) = &bug.build.recipe {
        command.arg("--recipe").arg(bug.folder.join(recipe));
    }
    if let Some(binary) = &bug.build.binary {
        command.args(["--binary", binary]);
    }
    if register {
        command.arg("--register");
    }
    let output = command
        .args(patches.iter().map(|patch| bug.folder.join(patch)))
        .env("FAILSKETCH", failsketch)
        .env("REAL_PROGRAMS", cache())
        .output()
        .with_context(|| format!("starting {}", script.display()))?;
    if !output.status.success() {
        bail!("{}", String::from_utf8_lossy(&output.stderr).trim());
    }
    let said = String::from_utf8_lossy(&output.stdout);
    let binary = PathBuf::from(said.trim());
    ensure!(
        binary.is_file(),
        "{} made no {}",
        script.display(),
        binary.display()
    );
    let folder = cache()
        .canonicalize()
        .context("finding the real programs")?;
    let mut deployed = binary.clone().into_os_string();
    deployed.push(".deployed");
    Ok(Built {
        tree: folder.join(package).join(name),
        binary,
        deployed: deployed.into(),
        store: folder.join("store"),
    })
}
