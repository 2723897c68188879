//! The files behind a process's executable mappings.
//!
//! The program's own module always goes by the path of the command, whether P or
//! a tracked build in memory was mapped: the server recognises it by that. Files
//! are read from disk after the fact and cached across runs by their identity.

use formats::elf::ElfFacts;
use formats::proc_maps::{self, MappedRange};
use sketch_model::{Mapping, RuntimeAddress};
use std::{collections::HashMap, fs, io, os::unix::fs::MetadataExt, path::Path, sync::Arc};

/// An executable mapping and, where it could be read, its file.
#[derive(Clone, Debug)]
pub struct Module {
    pub range: MappedRange,
    /// What must be subtracted from a runtime address to get the file's.
    pub bias: Option<u64>,
    pub facts: Option<Arc<ElfFacts>>,
}

impl Module {
    pub fn mapping(&self) -> Mapping {
        Mapping {
            start: RuntimeAddress(self.range.start),
            end: RuntimeAddress(self.range.end),
            file_offset: self.range.file_offset,
            path: self.range.path.clone(),
            build_id: self.facts.as_ref().and_then(|f| f.build_id.clone()),
        }
    }
}

/// What was executed.
#[derive(Clone, Debug)]
pub struct MainModule {
    /// The path that records give it.
    pub path: String,
    /// The path that the kernel shows for it.
    pub mapped_as: String,
    pub facts: Arc<ElfFacts>,
}

impl MainModule {
    /// Whether this is what the kernel shows, also after the file was replaced
    /// under the running program, as an upgrade does.
    fn is_mapped_as(&self, shown: &str) -> bool {
        shown == self.mapped_as || shown.strip_suffix(" (deleted)") == Some(&self.mapped_as)
    }
}

/// A file's identity on disk: device, inode, size and change time.
type Identity = (u64, u64, u64, i64, i64);

/// Files read so far.
#[derive(Debug, Default)]
pub struct ModuleCache {
    files: HashMap<String, (Identity, Option<Arc<ElfFacts>>)>,
}

impl ModuleCache {
    fn file(&mut self, path: &str) -> io::Result<Option<Arc<ElfFacts>>> {
        let about = fs::metadata(path)?;
        let identity = (
            about.dev(),
            about.ino(),
            about.size(),
            about.ctime(),
            about.ctime_nsec(),
        );
        match self.files.get(path) {
            Some((known, facts)) if *known == identity => Ok(facts.clone()),
            _ => {
                let facts = ElfFacts::read(&fs::read(path)?).map(Arc::new);
                self.files
                    .insert(path.to_string(), (identity, facts.clone()));
                Ok(facts)
            }
        }
    }

    /// The modules of a maps text, the main one renamed.
    pub fn modules(&mut self, maps: &str, main: &MainModule) -> Vec<Module> {
        proc_maps::executable(maps)
            .into_iter()
            .map(|mut range| {
                let facts = if main.is_mapped_as(&range.path) {
                    range.path = main.path.clone();
                    Some(main.facts.clone())
                } else if Path::new(&range.path).is_absolute() {
                    self.file(&range.path).ok().flatten()
                } else {
                    None
                };
                let bias = facts
                    .as_ref()
                    .and_then(|f| f.load_bias(range.start, range.file_offset));
                Module { range, bias, facts }
            })
            .collect()
    }
}
