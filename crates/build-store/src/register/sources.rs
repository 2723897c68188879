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
}

/// What debug info says of source files.
#[derive(Debug, Default)]
pub struct NamedSources {
    /// In the order of debug info.
    pub units: Vec<Unit>,
    /// All files that line tables mention, made absolute likewise.
    pub files: BTreeSet<PathBuf>,
    /// Bytes of all of these paths.
    kept: usize,
    /// Bytes of all paths that were put together, repeated ones too.
    composed: usize,
}

/// More paths than any program has: a few bytes of a table can repeat a long folder.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("its debug info names source files by more than {} MiB of paths", MOST_KEPT >> 20)]
pub struct TooManyNames;

/// No file can be opened by a longer path (`PATH_MAX`).
const MOST_PATH: usize = 4096;
const MOST_KEPT: usize = 512 << 20;
const MOST_COMPOSED: usize = 16 * MOST_KEPT;

/// What debug info of `file` says. A unit that cannot be read is left out: its module is
/// proven all the same, only its text is missing.
pub fn named_sources(file: &ElfFile64<'_>) -> Result<NamedSources, TooManyNames> {
    let load = |id: gimli::SectionId| -> Result<Cow<'_, [u8]>, gimli::Error> {
        Ok(file
            .section_by_name(id.name())
            .and_then(|section| section.uncompressed_data().ok())
            .unwrap_or_default())
    };
    let mut named = NamedSources::default();
    let Ok(sections) = gimli::DwarfSections::load(load) else {
        return Ok(named);
    };
    let dwarf = sections.borrow(|section| EndianSlice::new(section, LittleEndian));
    let mut headers = dwarf.units();
    while let Ok(Some(header)) = headers.next() {
        if let Ok(unit) = dwarf.unit(header) {
            named.read_unit(&dwarf, &unit)?;
        }
    }
    Ok(named)
}

impl NamedSources {
    fn read_unit<'d>(
        &mut self,
        dwarf: &gimli::Dwarf<Slice<'d>>,
        unit: &gimli::Unit<Slice<'d>>,
    ) -> Result<(), TooManyNames> {
        let directory = unit.comp_dir.as_ref().map_or(&[][..], EndianSlice::slice);
        let Some(name) = &unit.name else {
            return Ok(());
        };
        let Some(source) = self.compose(&[directory, name.slice()])? else {
            return Ok(());
        };
        if let Some(program) = &unit.line_program {
            let header = program.header();
            for entry in header.file_names() {
                let Ok(name) = dwarf.attr_string(unit, entry.path_name()) else {
                    continue;
                };
                let folder = entry
                    .directory(header)
                    .and_then(|value| dwarf.attr_string(unit, value).ok());
                let folder = folder.as_ref().map_or(&[][..], EndianSlice::slice);
                if let Some(path) = self.compose(&[directory, folder, name.slice()])? {
                    self.keep(&path)?;
                    self.files.insert(path);
                }
            }
        }
        let directory = PathBuf::from(String::from_utf8_lossy(directory).into_owned());
        self.keep(&directory)?;
        self.keep(&source)?;
        self.units.push(Unit { source, directory });
        Ok(())
    }

    /// The path of these parts; none if it is so long that it names no file.
    fn compose(&mut self, parts: &[&[u8]]) -> Result<Option<PathBuf>, TooManyNames> {
        let length: usize = parts.iter().map(|part| part.len()).sum();
        if length > MOST_PATH {
            return Ok(None);
        }
        self.composed = self.composed.saturating_add(length);
        if self.composed > MOST_COMPOSED {
            return Err(TooManyNames);
        }
        let parts = parts.iter().map(|part| String::from_utf8_lossy(part));
        let path = parts.fold(PathBuf::new(), |path, part| path.join(&*part));
        Ok(Some(normalised(&path)))
    }

    /// Counts a path that stays, unless it is there.
    fn keep(&mut self, path: &Path) -> Result<(), TooManyNames> {
        if !self.files.contains(path) {
            self.kept = self.kept.saturating_add(path.as_os_str().len());
        }
        match self.kept > MOST_KEPT {
            true => Err(TooManyNames),
            false => Ok(()),
        }
    }
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
    /// Normalised.
    to: PathBuf,
}

/// The `-fdebug-prefix-map` options of some modules. Builds have one or two; each path is
/// tried with each of them, so further ones than so many are not used.
pub fn prefix_maps<'f>(flags: impl Iterator<Item = &'f String>) -> BTreeSet<PrefixMap> {
    const MOST: usize = 64;
    let mut maps = BTreeSet::new();
    let texts = flags.filter_map(|flag| flag.strip_prefix("-fdebug-prefix-map="));
    for (from, to) in texts.filter_map(|map| map.split_once('=')) {
        if maps.len() == MOST {
            break;
        }
        maps.insert(PrefixMap {
            from: from.to_string(),
            to: normalised(Path::new(to)),
        });
    }
    maps
}

/// Where the file that debug info calls `path` may be: there, or where it was before
/// `maps` rewrote it.
pub fn places(path: &Path, maps: &BTreeSet<PrefixMap>) -> Vec<PathBuf> {
    let unmapped = maps.iter().filter_map(|map| {
        let rest = path.strip_prefix(&map.to).ok()?;
        let length = map.from.len() + rest.as_os_str().len();
        (length <= MOST_PATH).then(|| Path::new(&map.from).join(rest))
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
        let maps = prefix_maps([&"-fdebug-prefix-map=/build=.".to_string()].into_iter());
        let place = normalised(Path::new("./a.c"));
        assert_eq!(places(&place, &maps), [Path::new("/build/a.c")]);
        assert_eq!(places(Path::new("/b.c"), &maps), [Path::new("/b.c")]);
    }

    /// A few bytes of a table name a long folder again and again.
    #[test]
    fn paths_that_would_take_gigabytes_are_refused_and_those_of_no_file_left_out() {
        let mut named = NamedSources::default();
        let long = "/folder".repeat(500);
        let mut add = |name: &str, kept: usize| {
            named.kept = kept;
            let path = named.compose(&[long.as_bytes(), name.as_bytes()])?;
            let path = path.expect("a path");
            named.keep(&path)?;
            named.files.insert(path);
            Ok(())
        };
        assert_eq!(add("a.c", 0), Ok(()));
        assert_eq!(add("a.c", MOST_KEPT), Ok(()), "it is there already");
        assert_eq!(add("b.c", MOST_KEPT), Err(TooManyNames));
        let mut named = NamedSources::default();
        let longer = "/folder".repeat(600);
        assert_eq!(named.compose(&[longer.as_bytes(), b"a.c"]), Ok(None));
        assert_eq!(
            named.compose(&[b"/a", b"b/.", b"../c.h"]),
            Ok(Some("/a/c.h".into()))
        );
        named.composed = MOST_COMPOSED;
        assert_eq!(named.compose(&[b"/a"]), Err(TooManyNames));
    }
}
