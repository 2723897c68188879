//! Makes a tracked build of a registered program both ways, and says how long
//! each took and how large it became: the figures of `docs/tracked-builds.md`.
//!
//! `clones_or_relink STORE BUILD-ID FOLDER FUNCTION…` hooks every statement of
//! the functions and writes both builds, full and deployed, into FOLDER. The
//! patches are left to whoever wants to measure them: this crate makes none.

use build_store::BuildStore;
use instrumenter::{Refusal, TrackedBuild, track, track_by_relinking};
use sketch_model::{BuildId, Slice, StatementId};
use slicer::{ModuleInput, Program};
use std::path::Path;
use std::time::Instant;

/// Processor seconds of this process and of the tools that it ran, which other
/// work on the machine hardly changes.
fn processor_seconds() -> f64 {
    [libc::RUSAGE_SELF, libc::RUSAGE_CHILDREN]
        .into_iter()
        .map(|who| {
            // SAFETY: `usage` is a valid place for the answer, and zeros are one.
            let usage = unsafe {
                let mut usage: libc::rusage = std::mem::zeroed();
                libc::getrusage(who, &mut usage);
                usage
            };
            let seconds = |t: libc::timeval| t.tv_sec as f64 + t.tv_usec as f64 / 1e6;
            seconds(usage.ru_utime) + seconds(usage.ru_stime)
        })
        .sum()
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [store, id, folder, functions @ ..] = words.as_slice() else {
        return Err("give a store, a build-id, a folder and functions".into());
    };
    let build = BuildStore::open(store).load(&BuildId(id.clone()))?;
    let mut modules = Vec::new();
    for (number, module) in build.manifest().modules.iter().enumerate() {
        modules.push((module.source.clone(), build.module_bitcode(number)?));
    }
    let inputs: Vec<ModuleInput<'_>> = modules
        .iter()
        .map(|(name, bitcode)| ModuleInput { name, bitcode })
        .collect();
    let program = Program::load(BuildId(id.clone()), &inputs)?;
    let entries: Vec<_> = program
        .statements()
        .iter()
        .enumerate()
        .filter(|(_, s)| functions.contains(&s.function))
        .map(|(n, _)| slicer::entry_for(&program, StatementId(n as u32), &|_| None))
        .collect();
    let slice = Slice {
        schema: Default::default(),
        build: BuildId(id.clone()),
        entries: Vec::new(),
        gaps: Vec::new(),
    };
    let plan = slicer::plan(&slice, 0, &entries);
    println!("{} statements, {} sites", entries.len(), plan.sites.len());
    let now = || (Instant::now(), processor_seconds());
    let show = |name: &str, start: (Instant, f64), tracked: TrackedBuild| {
        let seconds = start.0.elapsed().as_secs_f64();
        let processor = processor_seconds() - start.1;
        println!(
            "{name}: {seconds:.2} s, {processor:.2} of processor, {}",
            tracked.way
        );
        let path = |kind: &str| Path::new(folder).join(format!("{name}.{kind}"));
        std::fs::write(path("full"), &tracked.full)?;
        std::fs::write(path("deployed"), &tracked.deployed)
    };
    std::fs::write(Path::new(folder).join("P.deployed"), build.deployed()?)?;
    let start = now();
    show("first", start, track(&build, &plan)?)?;
    if std::env::var_os("ONLY_CLONES").is_none() {
        let start = now();
        let relinked = track_by_relinking(&build, &plan, Refusal::SharedObject)?;
        show("relinked", start, relinked)?;
    }
    Ok(())
}
