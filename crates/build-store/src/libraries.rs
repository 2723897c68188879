//! The shared objects a binary needs, and where the dynamic linker would find them here.
//!
//! Search order of ld.so(8), without `LD_LIBRARY_PATH`, which belongs to the
//! machine the program will run on: the run path of the binary, the folders of
//! `/etc/ld.so.conf`, the default folders.

use std::path::{Path, PathBuf};

use object::Object;
use object::elf::{DT_NEEDED, DT_RPATH, DT_RUNPATH, FileHeader64};
use object::read::elf::{Dyn, ElfFile64, FileHeader};
use sketch_model::BuildId;

use crate::manifest::SharedLibrary;

/// What the dynamic section says: names, and folders to search first.
#[derive(Debug, Default)]
struct DynamicSection {
    needed: Vec<String>,
    run_path: Vec<String>,
}

fn dynamic_section(bytes: &[u8]) -> object::Result<DynamicSection> {
    let header = FileHeader64::<object::Endianness>::parse(bytes)?;
    let endian = header.endian()?;
    let sections = header.sections(endian, bytes)?;
    let mut result = DynamicSection::default();
    let Some((entries, strings)) = sections.dynamic(endian, bytes)? else {
        return Ok(result);
    };
    let strings = sections.strings(endian, bytes, strings)?;
    for entry in entries {
        let text = || -> Option<String> {
            let offset = u32::try_from(entry.d_val(endian)).ok()?;
            let bytes = strings.get(offset).ok()?;
            Some(String::from_utf8_lossy(bytes).into_owned())
        };
        match entry.d_tag(endian) {
            DT_NEEDED => result.needed.extend(text()),
            DT_RPATH | DT_RUNPATH => result.run_path.extend(
                text()
                    .iter()
                    .flat_map(|paths| paths.split(':'))
                    .map(str::to_string),
            ),
            _ => {}
        }
    }
    Ok(result)
}

/// The libraries that the binary `bytes`, which lies at `path`, needs directly.
pub fn needed_libraries(bytes: &[u8], path: &Path) -> Vec<SharedLibrary> {
    let Ok(dynamic) = dynamic_section(bytes) else {
        return Vec::new();
    };
    let origin = path.parent().unwrap_or(Path::new(".")).to_string_lossy();
    let mut folders: Vec<PathBuf> = dynamic
        .run_path
        .iter()
        .map(|folder| {
            folder
                .replace("${ORIGIN}", &origin)
                .replace("$ORIGIN", &origin)
                .into()
        })
        .collect();
    folders.extend(configured_folders(Path::new("/etc/ld.so.conf"), 0));
    folders.extend(["/lib64", "/usr/lib64", "/lib", "/usr/lib"].map(PathBuf::from));
    dynamic
        .needed
        .into_iter()
        .map(|name| {
            let path = folders
                .iter()
                .map(|folder| folder.join(&name))
                .find(|candidate| candidate.is_file());
            let build_id = path.as_deref().and_then(build_id_of);
            SharedLibrary {
                name,
                path,
                build_id,
            }
        })
        .collect()
}

fn build_id_of(path: &Path) -> Option<BuildId> {
    let bytes = std::fs::read(path).ok()?;
    let file: ElfFile64<'_> = ElfFile64::parse(&*bytes).ok()?;
    let id = file.build_id().ok()??;
    Some(BuildId(hex::encode(id)))
}

/// The folders of an `ld.so.conf`, with its `include` lines followed.
fn configured_folders(file: &Path, depth: usize) -> Vec<PathBuf> {
    let Ok(text) = std::fs::read_to_string(file) else {
        return Vec::new();
    };
    let mut folders = Vec::new();
    for line in text.lines().map(str::trim) {
        match line.strip_prefix("include ") {
            Some(pattern) if depth < 4 => {
                for included in matching_files(Path::new(pattern.trim())) {
                    folders.extend(configured_folders(&included, depth + 1));
                }
            }
            None if line.starts_with('/') => folders.push(line.into()),
            _ => {}
        }
    }
    folders
}

/// Files that match a pattern whose last component may be `*SUFFIX`, the form distributions use.
fn matching_files(pattern: &Path) -> Vec<PathBuf> {
    let name = pattern.file_name().unwrap_or_default().to_string_lossy();
    let (Some(suffix), Some(folder)) = (name.strip_prefix('*'), pattern.parent()) else {
        return vec![pattern.to_path_buf()];
    };
    let mut files: Vec<PathBuf> = std::fs::read_dir(folder)
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.to_string_lossy().ends_with(suffix))
        .collect();
    files.sort();
    files
}
