//! Source files of a binary, from the file tables of its debug info.
//!
//! Paths are keyed as debug info states them, made absolute with the unit's
//! compilation directory. When `-fdebug-prefix-map` rewrote them, the mapping
//! is undone to find the file. `own_files.rs` decides which of them are read.
//!
//! Deliberately absent: split debug info (`-gsplit-dwarf`); such units state
//! their name but no files.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::path::{Component, Path, PathBuf};

use gimli::{EndianSlice, LittleEndian};
use object::read::elf::ElfFile64;
use object::{Object, ObjectSection};

use crate::manifest::SourceFile;
use crate::own_files::{Claims, LeftOut, OwnFiles};
use crate::register::embedded::EmbeddedModule;
use crate::register::recompile::compilation_directory;

type Slice<'d> = EndianSlice<'d, LittleEndian>;

/// One compilation unit of a binary.
#[derive(Debug)]
pub struct Unit {
    /// The source file's path, absolute where the unit says enough.
    pub source: PathBuf,
    /// The compilation directory.
    pub directory: PathBuf,
    /// All files its line table mentions, made absolute likewise.
    pub files: BTreeSet<PathBuf>,
}

/// The units of `file`, in the order of its debug info. A unit that cannot be
/// read is left out: its module is proven all the same, only its text is missing.
pub fn units(file: &ElfFile64<'_>) -> Vec<Unit> {
    let load = |id: gimli::SectionId| -> Result<Cow<'_, [u8]>, gimli::Error> {
        Ok(file
            .section_by_name(id.name())
            .and_then(|section| section.uncompressed_data().ok())
            .unwrap_or_default())
    };
    let Ok(sections) = gimli::DwarfSections::load(load) else {
        return Vec::new();
    };
    let dwarf = sections.borrow(|section| EndianSlice::new(section, LittleEndian));
    let mut found = Vec::new();
    let mut headers = dwarf.units();
    while let Ok(Some(header)) = headers.next() {
        if let Ok(unit) = dwarf.unit(header) {
            found.extend(read_unit(&dwarf, &unit));
        }
    }
    found
}

fn read_unit<'d>(dwarf: &gimli::Dwarf<Slice<'d>>, unit: &gimli::Unit<Slice<'d>>) -> Option<Unit> {
    let text = |slice: &Slice<'d>| Some(slice.to_string_lossy().into_owned());
    let directory = PathBuf::from(unit.comp_dir.as_ref().and_then(text).unwrap_or_default());
    let name = unit.name.as_ref().and_then(text)?;
    let mut files = BTreeSet::new();
    if let Some(program) = &unit.line_program {
        let header = program.header();
        for entry in header.file_names() {
            let Some(name) = dwarf
                .attr_string(unit, entry.path_name())
                .ok()
                .and_then(|slice| text(&slice))
            else {
                continue;
            };
            let folder = entry
                .directory(header)
                .and_then(|value| dwarf.attr_string(unit, value).ok())
                .and_then(|slice| text(&slice))
                .unwrap_or_default();
            files.insert(normalised(&directory.join(folder).join(name)));
        }
    }
    Some(Unit {
        source: normalised(&directory.join(name)),
        directory,
        files,
    })
}

/// Removes `.` and resolves `..` as text: debug info may name folders that are gone.
pub fn normalised(path: &Path) -> PathBuf {
    let mut clean = PathBuf::new();
    for component in path.components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir if clean.file_name().is_some() => {
                clean.pop();
            }
            other => clean.push(other),
        }
    }
    clean
}

/// A rewriting of path beginnings that was in force at compilation.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PrefixMap {
    from: String,
    to: String,
}

/// The `-fdebug-prefix-map` options among a module's flags.
pub fn prefix_maps(flags: &[String]) -> Vec<PrefixMap> {
    flags
        .iter()
        .filter_map(|flag| flag.strip_prefix("-fdebug-prefix-map="))
        .filter_map(|map| map.split_once('='))
        .map(|(from, to)| PrefixMap {
            from: from.to_string(),
            to: to.to_string(),
        })
        .collect()
}

/// Where the file that debug info calls `path` may be: there, or where it was before
/// `maps` rewrote it.
pub fn places(path: &Path, maps: &BTreeSet<PrefixMap>) -> Vec<PathBuf> {
    let unmapped = maps.iter().filter_map(|map| {
        let to = normalised(Path::new(&map.to));
        Some(Path::new(&map.from).join(path.strip_prefix(to).ok()?))
    });
    let mut places: Vec<PathBuf> = std::iter::once(path.to_path_buf())
        .chain(unmapped)
        .filter(|place| place.is_absolute())
        .collect();
    places.dedup();
    places
}

/// The source file that debug info calls `path`: whose it is, and its text if it is kept.
pub fn source_file(
    path: &Path,
    maps: &BTreeSet<PrefixMap>,
    own: &OwnFiles,
) -> (SourceFile, Option<Vec<u8>>) {
    let mut reason = LeftOut::Missing;
    for place in places(path, maps) {
        match own.read(&place) {
            Ok(text) => {
                let left_out = None;
                return (
                    SourceFile {
                        own: true,
                        left_out,
                    },
                    Some(text),
                );
            }
            // A path before it was rewritten may name nothing; what is known better stays.
            Err(LeftOut::Missing) => {}
            Err(other) => reason = other,
        }
    }
    let is_own = !matches!(reason, LeftOut::Library | LeftOut::Outside);
    let left_out = (reason != LeftOut::Library).then(|| reason.to_string());
    (
        SourceFile {
            own: is_own,
            left_out,
        },
        None,
    )
}

/// What a file says of the folders of its program, for [`OwnFiles`].
pub fn claims(modules: &[EmbeddedModule], names: &[String], maps: &BTreeSet<PrefixMap>) -> Claims {
    const LIBRARY_FLAGS: &[&str] = &[
        "-c-isystem",
        "-cxx-isystem",
        "-idirafter",
        "-internal-externc-isystem",
        "-internal-isystem",
        "-isystem",
    ];
    let mut claims = Claims::default();
    for module in modules {
        let folder = compilation_directory(&module.flags).unwrap_or_default();
        let real = places(&normalised(&folder), maps);
        let values = module.flags.iter().zip(module.flags.iter().skip(1));
        for (_, value) in values.filter(|(flag, _)| LIBRARY_FLAGS.contains(&flag.as_str())) {
            let all = real.iter().map(|folder| folder.join(value));
            claims.library_folders.extend(all.filter(|it| it.is_dir()));
        }
        let there = real.into_iter().filter(|folder| folder.is_dir());
        claims.compile_folders.extend(there);
    }
    claims.library_folders.sort();
    claims.library_folders.dedup();
    let sources = names.iter().flat_map(|name| places(Path::new(name), maps));
    claims.main_sources = sources.filter(|place| place.is_file()).collect();
    claims
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_cleaned_as_text() {
        assert_eq!(normalised(Path::new("/a/./b/../c.h")), Path::new("/a/c.h"));
        assert_eq!(normalised(Path::new("../c.h")), Path::new("../c.h"));
    }

    #[test]
    fn a_prefix_map_is_undone() {
        let maps = prefix_maps(&["-fdebug-prefix-map=/build=.".to_string()]);
        let maps = maps.into_iter().collect();
        let place = normalised(Path::new("./a.c"));
        assert_eq!(places(&place, &maps), [Path::new("/build/a.c")]);
        assert_eq!(places(Path::new("/b.c"), &maps), [Path::new("/b.c")]);
    }
}
