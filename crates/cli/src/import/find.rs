//! Finds the files that were mapped: by build-id among what the user names, the
//! registered build and perf's own cache, else at the path where they were.
//!
//! A file of another build-id is never used, whatever its name: wrong code gives
//! a wrong path. One without a build-id can only be taken on trust.

use anyhow::{Context, Result};
use build_store::RegisteredBuild;
use formats::elf::build_id;
use pt_decoder::worker::FoundFile;
use sketch_model::{BuildId, MappedCode, PtRecord, SidebandKind};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// All mapped code of a recording.
pub fn mapped(record: &PtRecord) -> impl Iterator<Item = &MappedCode> {
    record
        .sideband
        .iter()
        .filter_map(|event| match &event.kind {
            SidebandKind::Mapped(mapped) => Some(mapped),
            _ => None,
        })
}

/// Where the mapped files are. Those of the build store are put into `folder`.
pub fn files(
    record: &PtRecord,
    build: Option<&RegisteredBuild>,
    given: &[PathBuf],
    folder: &Path,
) -> Result<Vec<FoundFile>> {
    let mut by_id = BTreeMap::new();
    let mut without_id = Vec::new();
    for path in given {
        let listed = listed(path).with_context(|| format!("{} cannot be read", path.display()))?;
        for file in listed {
            match id_of(&file) {
                Some(id) => {
                    by_id.insert(id, file);
                }
                None => without_id.push(file),
            }
        }
    }
    if let Some(build) = build {
        let file = folder.join("program");
        std::fs::write(&file, build.deployed()?)?;
        by_id
            .entry(build.manifest().build_id.clone())
            .or_insert(file);
    }
    let wanted: BTreeSet<(&str, Option<&BuildId>)> = mapped(record)
        .map(|it| (it.path.as_str(), it.build_id.as_ref()))
        .collect();
    Ok(wanted
        .into_iter()
        .filter_map(|(path, id)| {
            let file = match id {
                Some(id) => by_id
                    .get(id)
                    .cloned()
                    .or_else(|| cached_by_perf(id))
                    .or_else(|| {
                        Some(PathBuf::from(path)).filter(|it| id_of(it).as_ref() == Some(id))
                    }),
                None => without_id
                    .iter()
                    .find(|it| it.file_name() == Path::new(path).file_name())
                    .cloned()
                    .or_else(|| Some(PathBuf::from(path)).filter(|it| it.is_file())),
            }?;
            Some(FoundFile {
                mapped_path: path.to_owned(),
                build_id: id.cloned(),
                file,
            })
        })
        .collect())
}

fn listed(path: &Path) -> std::io::Result<Vec<PathBuf>> {
    if !path.is_dir() {
        std::fs::metadata(path)?;
        return Ok(vec![path.to_owned()]);
    }
    let entries = std::fs::read_dir(path)?;
    let files = entries.map(|entry| entry.map(|it| it.path()));
    let mut files: Vec<_> = files.collect::<Result<_, _>>()?;
    files.retain(|it| it.is_file());
    files.sort();
    Ok(files)
}

fn id_of(file: &Path) -> Option<BuildId> {
    build_id(&std::fs::read(file).ok()?)
}

/// `~/.debug/.build-id/ab/cdef…/elf`, which `perf record` fills.
fn cached_by_perf(id: &BuildId) -> Option<PathBuf> {
    let home = PathBuf::from(std::env::var_os("HOME")?);
    let (first, rest) = id.0.split_at_checked(2)?;
    let folder = home.join(".debug/.build-id").join(first).join(rest);
    ["elf", "vdso"]
        .map(|name| folder.join(name))
        .into_iter()
        .find(|it| it.is_file())
}
