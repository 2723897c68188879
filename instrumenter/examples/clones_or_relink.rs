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
    let show = |name: &str, start: Instant, tracked: TrackedBuild| {
        let seconds = start.elapsed().as_secs_f64();
        println!("{name}: {seconds:.2} s, {}", tracked.way);
        let path = |kind: &str| Path::new(folder).join(format!("{name}.{kind}"));
        std::fs::write(path("full"), &tracked.full)?;
        std::fs::write(path("deployed"), &tracked.deployed)
    };
    std::fs::write(Path::new(folder).join("P.deployed"), build.deployed()?)?;
    let start = Instant::now();
    show("first", start, track(&build, &plan)?)?;
    if std::env::var_os("ONLY_CLONES").is_none() {
        let start = Instant::now();
        let relinked = track_by_relinking(&build, &plan, Refusal::SharedObject)?;
        show("relinked", start, relinked)?;
    }
    Ok(())
}
