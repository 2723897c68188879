//! The files behind a process's executable mappings.
//!
//! The program's own module always goes by the path of the command, whether P or
//! a tracked build in memory was mapped: the server recognises it by that. Files
//! are read from disk after the fact and cached across runs by their identity.

use formats::elf::ElfFacts;
use formats::proc_maps::{self, MappedRange};
use sketch_model::{Mapping, RuntimeAddress};
use std::{
    collections::HashMap,
    fs::{self, File},
    io::{self, Read},
    os::unix::fs::MetadataExt,
    path::Path,
    sync::Arc,
};

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

/// Mappings that are looked at. The text that a crash leaves has room for fewer, unless
/// the program has written over it.
pub const MOST_MODULES: usize = 4096;
/// A longer file is not read, nor are more bytes than these for one list of mappings: the
/// list lies where the program can write, and may name any files.
const LARGEST_FILE: u64 = 2 << 30;
const MOST_BYTES: u64 = 4 << 30;

/// A file's identity on disk: device, inode, size and change time.
type Identity = (u64, u64, u64, i64, i64);

/// Files read so far.
#[derive(Debug, Default)]
pub struct ModuleCache {
    files: HashMap<String, (Identity, Option<Arc<ElfFacts>>)>,
}

impl ModuleCache {
    /// `left` is how many bytes may still be read.
    fn file(&mut self, path: &str, left: &mut u64) -> io::Result<Option<Arc<ElfFacts>>> {
        let about = fs::metadata(path)?;
        // A device or a pipe may never end.
        if !about.is_file() {
            return Ok(None);
        }
        let identity = (
            about.dev(),
            about.ino(),
            about.size(),
            about.ctime(),
            about.ctime_nsec(),
        );
        match self.files.get(path) {
            Some((known, facts)) if *known == identity => Ok(facts.clone()),
            _ if about.size() > LARGEST_FILE.min(*left) => Ok(None),
            _ => {
                *left -= about.size();
                // Files that only look like some say that they are empty.
                let mut bytes = Vec::new();
                File::open(path)?
                    .take(about.size())
                    .read_to_end(&mut bytes)?;
                let facts = ElfFacts::read(&bytes).map(Arc::new);
                self.files
                    .insert(path.to_string(), (identity, facts.clone()));
                Ok(facts)
            }
        }
    }

    /// The modules of a maps text, the main one renamed.
    pub fn modules(&mut self, maps: &str, main: &MainModule) -> Vec<Module> {
        let mut left = MOST_BYTES;
        proc_maps::executable(maps)
            .take(MOST_MODULES)
            .map(|mut range| {
                let facts = if main.is_mapped_as(&range.path) {
                    range.path = main.path.clone();
                    Some(main.facts.clone())
                } else if Path::new(&range.path).is_absolute() {
                    self.file(&range.path, &mut left).ok().flatten()
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

#[cfg(test)]
mod tests {
    use super::*;

    /// The list of mappings lies where the program can write: it may name anything.
    #[test]
    fn only_regular_files_are_read_and_only_so_many() {
        let bytes = fs::read("/proc/self/exe").expect("readable");
        let main = MainModule {
            path: "/program".into(),
            mapped_as: "/program".into(),
            facts: Arc::new(ElfFacts::read(&bytes).expect("is ELF")),
        };
        let mut cache = ModuleCache::default();
        let text = "1000-2000 r-xp 00000000 00:00 0 /dev/zero\n\
                    3000-4000 r-xp 00000000 00:00 0 /proc/self/mem\n\
                    5000-6000 r-xp 00000000 00:00 0 /proc/self/exe\n";
        let modules = cache.modules(text, &main);
        let read: Vec<bool> = modules.iter().map(|m| m.facts.is_some()).collect();
        assert_eq!(read, [false, false, true]);
        let zero = cache.files.contains_key("/dev/zero");
        assert!(!zero, "it would never have ended");

        let mut left = 1000;
        let about = cache.file("/bin/sh", &mut left).expect("is there");
        assert!(about.is_none() && left == 1000, "more than is left");

        let line = "1000-2000 r-xp 00000000 00:00 0 /program\n";
        let many = cache.modules(&line.repeat(2 * MOST_MODULES), &main);
        assert_eq!(many.len(), MOST_MODULES);
    }
}
