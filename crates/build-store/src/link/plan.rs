//! From a recorded link line to a plan for linking again, made at registration.
//!
//! Inputs that carried our bitcode (sources of a one-call build, our objects,
//! members of our archives) become places for objects made from the store;
//! inputs without bitcode are kept in the store as they are. Of an archive that
//! holds both, only the foreign members are kept, so that `--whole-archive`
//! does not bring a function in twice.
//!
//! Modules are found again in an input by the hash of their bitcode, and
//! sources by the name the compiler recorded. What is not found (an object
//! deleted since) still gets a place: after the last module that was.
//!
//! The line is the file's own word, so only what `link_flags.rs` allows is in the plan.
//! A line with anything else has no plan, and the reason is kept instead.

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

use crate::blobs;
use crate::link::driver_args::{self, DriverArgument, InputKind, input_kind};
use crate::link::inputs::{self, LinkInput, Reading};
use crate::link::record::LinkRecord;
use crate::link_flags::{self, LinkerReader, LinkerWords};
use crate::manifest::{BlobId, KeptFile, LinkItem, LinkPlan};
use crate::own_files::OwnFiles;
use crate::register::embedded::{EmbeddedModule, embedded_modules};
use crate::register::flags::RefusedFlag;
use crate::register::foreign_code::ForeignInput;
use crate::register::recompile::main_file_name;
use crate::sandbox::is_system_file;
use crate::tools::{ToolError, Tools};

/// The plan, what it keeps, and the inputs that carry no bitcode.
#[derive(Debug)]
pub struct Planned {
    /// Or why the program cannot be linked again.
    pub plan: Result<LinkPlan, String>,
    pub blobs: Vec<Vec<u8>>,
    pub foreign: Vec<ForeignInput>,
}

/// Plans how to link again what `record` linked from `modules`.
pub fn plan_link(
    record: &LinkRecord,
    modules: &[EmbeddedModule],
    own: &OwnFiles,
    tools: &Tools,
) -> Result<Planned, ToolError> {
    let mut planner = Planner::new(record, modules, own, tools);
    let arguments = driver_args::parse(&record.arguments);
    planner.search_folders(&arguments);
    let mut refused = None;
    if !planner.directory.is_absolute() {
        refused = Some(format!(
            "the folder that it was linked in, `{}`, is no absolute path",
            record.directory
        ));
    }
    for argument in &arguments {
        match planner.add_argument(argument) {
            Ok(()) => {}
            Err(PlanError::Tool(error)) => return Err(error),
            Err(error @ PlanError::Refused(_)) => {
                refused.get_or_insert(error.to_string());
            }
            Err(error @ PlanError::TooLarge(_)) => {
                refused.get_or_insert(error.to_string());
                break;
            }
        }
    }
    if let Err(flag) = std::mem::take(&mut planner.linker).end() {
        refused.get_or_insert(flag.to_string());
    }
    planner.place_sources(modules);
    planner.place_leftovers();
    let foreign = planner.foreign;
    if let Some(reason) = refused {
        return Ok(Planned {
            plan: Err(reason),
            blobs: Vec::new(),
            foreign,
        });
    }
    Ok(Planned {
        plan: Ok(LinkPlan {
            driver: record.driver,
            directory: planner.directory,
            items: planner.items,
        }),
        blobs: planner.blobs,
        foreign,
    })
}

/// Why an argument has no place in a plan.
#[derive(Debug, thiserror::Error)]
enum PlanError {
    #[error(transparent)]
    Refused(#[from] RefusedFlag),
    #[error("its inputs up to {} are larger than is read or kept of one program", .0.display())]
    TooLarge(PathBuf),
    #[error(transparent)]
    Tool(#[from] ToolError),
}

struct Planner<'o> {
    own: &'o OwnFiles,
    tools: &'o Tools,
    directory: PathBuf,
    folders: Vec<PathBuf>,
    prefer_static: bool,
    language: Option<String>,
    linker: LinkerReader,
    /// Modules that have no place yet, by the hash of their bitcode.
    unplaced: HashMap<BlobId, Vec<usize>>,
    items: Vec<LinkItem>,
    /// Items that wait for the module of a source: index and file name.
    sources: Vec<(usize, String)>,
    blobs: Vec<Vec<u8>>,
    foreign: Vec<ForeignInput>,
    /// Bytes of inputs that may still be read: the line may name any file, and any number
    /// of times.
    reading: Reading,
    /// Bytes that may still be kept, all of which are held until the store is written.
    keeping: u64,
}

/// Bytes of inputs that are kept of one program.
const MOST_KEPT: u64 = 2 << 30;

impl<'o> Planner<'o> {
    fn new(
        record: &LinkRecord,
        modules: &[EmbeddedModule],
        own: &'o OwnFiles,
        tools: &'o Tools,
    ) -> Self {
        let mut unplaced: HashMap<BlobId, Vec<usize>> = HashMap::new();
        for (index, module) in modules.iter().enumerate().rev() {
            unplaced
                .entry(blobs::hash(&module.bitcode))
                .or_default()
                .push(index);
        }
        Planner {
            own,
            tools,
            directory: PathBuf::from(&record.directory),
            folders: Vec::new(),
            prefer_static: record.arguments.iter().any(|word| word == "-static"),
            language: None,
            linker: LinkerReader::default(),
            unplaced,
            items: Vec::new(),
            sources: Vec::new(),
            blobs: Vec::new(),
            foreign: Vec::new(),
            reading: Reading::default(),
            keeping: MOST_KEPT,
        }
    }

    fn search_folders(&mut self, arguments: &[DriverArgument]) {
        for argument in arguments {
            if let DriverArgument::Option { name, value } = argument
                && name == "-L"
            {
                self.folders
                    .extend(value.iter().map(|value| self.directory.join(value)));
            }
        }
    }

    fn add_argument(&mut self, argument: &DriverArgument) -> Result<(), PlanError> {
        match argument {
            DriverArgument::Input(path) => self.add_input(path),
            DriverArgument::Option { name, value } => self.add_option(name, value.as_deref()),
            DriverArgument::MissingValue(_) | DriverArgument::EndOfOptions => Ok(()),
        }
    }

    fn add_option(&mut self, name: &str, value: Option<&str>) -> Result<(), PlanError> {
        match (name, value) {
            ("-x", Some(language)) => {
                self.language = (language != "none").then(|| language.to_string());
            }
            ("-L", Some(folder)) => self.add_folder(folder),
            ("-l", Some(library)) => self.add_library(library)?,
            ("-Xlinker", Some(word)) => self.add_linker_word(word)?,
            (name, None) if name.starts_with("-Wl,") => {
                for word in name["-Wl,".len()..].split(',') {
                    self.add_linker_word(word)?;
                }
            }
            (name, value) => {
                for word in link_flags::driver_option(name, value)? {
                    self.word(word);
                }
            }
        }
        Ok(())
    }

    fn word(&mut self, word: String) {
        self.items.push(LinkItem::Word(word));
    }

    fn add_folder(&mut self, folder: &str) {
        let folder = self.directory.join(folder);
        self.word(format!("-L{}", folder.display()));
    }

    fn add_library(&mut self, library: &str) -> Result<(), PlanError> {
        match self.own_archive(library) {
            Some(path) => self.add_linked(&path),
            None => {
                let word = link_flags::library(library)?;
                self.word(word);
                Ok(())
            }
        }
    }

    fn add_linker_word(&mut self, word: &str) -> Result<(), PlanError> {
        let mut push = |text: String, file| {
            self.items.push(LinkItem::LinkerWord { text, file });
        };
        match self.linker.read(word)? {
            LinkerWords::Nothing => {}
            LinkerWords::Pass(words) => words.into_iter().for_each(|word| push(word, None)),
            LinkerWords::WithFile { option, text, file } => {
                let Some(kept) = self.keep_file(&self.directory.join(&file))? else {
                    return Err(RefusedFlag(format!("{text}{file}"), "the linker").into());
                };
                let items = &mut self.items;
                items.extend(option.map(|text| LinkItem::LinkerWord { text, file: None }));
                let file = Some(kept);
                items.push(LinkItem::LinkerWord { text, file });
            }
            LinkerWords::Input(path) => self.add_linked(&self.directory.join(path))?,
            LinkerWords::Library(library) => self.add_library(&library)?,
            LinkerWords::Folder(folder) => self.add_folder(&folder),
        }
        Ok(())
    }

    fn add_input(&mut self, path: &str) -> Result<(), PlanError> {
        // The driver would read further words from a file.
        if path.starts_with('@') {
            return Err(RefusedFlag(path.to_string(), "the linker").into());
        }
        let full = self.directory.join(path);
        match input_kind(path, self.language.as_deref()) {
            InputKind::Linked => self.add_linked(&full)?,
            InputKind::Source | InputKind::Ir => {
                self.sources.push((self.items.len(), file_name(&full)));
                self.items.push(LinkItem::Modules(Vec::new()));
            }
            InputKind::Assembly => {
                self.foreign.push(ForeignInput::assembly(path.to_string()));
                if let Some(file) = self.keep_file(&full)? {
                    let language = self.language.clone();
                    self.items.push(LinkItem::Input { file, language });
                }
            }
            InputKind::Header => {}
        }
        Ok(())
    }

    fn add_linked(&mut self, path: &Path) -> Result<(), PlanError> {
        match inputs::read(path, &mut self.reading, self.tools)? {
            // It may have been one of ours; its modules get a place at the end.
            LinkInput::Missing => self.items.push(LinkItem::Modules(Vec::new())),
            LinkInput::TooLarge => return Err(PlanError::TooLarge(path.to_path_buf())),
            // `libm.so` and others are scripts of the system's own.
            LinkInput::NoCode if is_system_file(path) => self.word(path.display().to_string()),
            LinkInput::NoCode => {
                let name = path.display().to_string();
                return Err(RefusedFlag(name, "the linker").into());
            }
            LinkInput::SharedObject => self.word(path.display().to_string()),
            LinkInput::Files {
                with_bitcode,
                foreign,
                kept,
            } => {
                if !with_bitcode.is_empty() {
                    let mut placed: Vec<usize> = with_bitcode
                        .iter()
                        .filter_map(|bytes| embedded_modules(bytes).ok())
                        .flatten()
                        .filter_map(|module| self.take(&blobs::hash(&module.bitcode)))
                        .collect();
                    // Members of an archive come in the order in which the
                    // linker needed them, as the binary's modules do.
                    placed.sort_unstable();
                    self.items.push(LinkItem::Modules(placed));
                }
                self.foreign.extend(foreign);
                if let Some(bytes) = kept {
                    let file = self.keep(path, bytes)?;
                    let language = None;
                    self.items.push(LinkItem::Input { file, language });
                }
            }
        }
        Ok(())
    }

    /// The archive that `-lLIBRARY` means, if it is one of ours.
    fn own_archive(&mut self, library: &str) -> Option<PathBuf> {
        let reading = &mut self.reading;
        for folder in &self.folders {
            if let Some(exact) = library.strip_prefix(':') {
                let path = folder.join(exact);
                if path.is_file() {
                    return inputs::is_own_archive(&path, reading).then_some(path);
                }
                continue;
            }
            let shared = folder.join(format!("lib{library}.so"));
            if shared.is_file() && !self.prefer_static {
                return None;
            }
            let path = folder.join(format!("lib{library}.a"));
            if path.is_file() {
                return inputs::is_own_archive(&path, reading).then_some(path);
            }
        }
        None
    }

    fn keep_file(&mut self, path: &Path) -> Result<Option<KeptFile>, PlanError> {
        let bytes = self.own.read(path).ok();
        bytes.map(|bytes| self.keep(path, bytes)).transpose()
    }

    fn keep(&mut self, path: &Path, bytes: Vec<u8>) -> Result<KeptFile, PlanError> {
        let left = self.keeping.checked_sub(bytes.len() as u64);
        self.keeping = left.ok_or_else(|| PlanError::TooLarge(path.to_path_buf()))?;
        let blob = blobs::hash(&bytes);
        self.blobs.push(bytes);
        let name = file_name(path);
        Ok(KeptFile { name, blob })
    }

    fn take(&mut self, bitcode: &BlobId) -> Option<usize> {
        self.unplaced.get_mut(bitcode)?.pop()
    }

    /// Gives the sources of the link line the modules that no object accounted for.
    fn place_sources(&mut self, modules: &[EmbeddedModule]) {
        let mut free: Vec<usize> = self.unplaced.values().flatten().copied().collect();
        // Asked for from the front, so the first of each name comes last.
        free.sort_unstable_by_key(|index| Reverse(*index));
        let mut of_name: HashMap<&str, Vec<usize>> = HashMap::new();
        for index in free {
            if let Some(name) = main_file_name(&modules[index].flags) {
                of_name.entry(name).or_default().push(index);
            }
        }
        let mut placed = HashSet::new();
        for (item, name) in std::mem::take(&mut self.sources) {
            if let Some(index) = of_name.get_mut(&*name).and_then(Vec::pop) {
                self.items[item] = LinkItem::Modules(vec![index]);
                placed.insert(index);
            }
        }
        for indices in self.unplaced.values_mut() {
            indices.retain(|index| !placed.contains(index));
        }
    }

    fn place_leftovers(&mut self) {
        let mut left: Vec<usize> = self
            .unplaced
            .drain()
            .flat_map(|(_, indices)| indices)
            .collect();
        left.sort_unstable();
        if left.is_empty() {
            return;
        }
        let last = self
            .items
            .iter()
            .rposition(|item| matches!(item, LinkItem::Modules(_)));
        let place = last.map_or(0, |index| index + 1);
        self.items.insert(place, LinkItem::Modules(left));
    }
}

fn file_name(path: &Path) -> String {
    path.file_name()
        .map(|name| name.to_string_lossy().into_owned())
        .unwrap_or_default()
}
