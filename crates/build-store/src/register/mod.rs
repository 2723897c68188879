//! Registration: from a binary on disk to everything the store will hold of it.
//!
//! Everything is computed before anything is written, so that a binary that is
//! refused leaves no trace in the store.

pub mod embedded;
pub mod flags;
pub(crate) mod foreign_code;
pub(crate) mod prove;
pub mod recompile;
pub mod relocations;
pub(crate) mod sources;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use object::read::elf::ElfFile64;
use object::{Object, ObjectSection, ObjectSymbol, SymbolKind};
use sketch_model::BuildId;

use crate::blobs;
use crate::deploy::{objcopy, strip_for_deployment};
use crate::error::RegisterError;
use crate::graphs::NewGraph;
use crate::link::plan::plan_link;
use crate::link::record::{LINK_SECTION, LinkRecord};
use crate::manifest::{BlobId, BuildManifest, ModuleEntry, SourceFile};
use crate::own_files::{OwnFiles, Roots};
use crate::sandbox::Sandbox;
use crate::tools::{ToolError, Tools};
use embedded::{EmbeddedModule, embedded_modules};
use foreign_code::foreign_code;
use formats::elf::is_x86_64;
use prove::{ModuleProof, ProofError, prove};
use recompile::{compilation_directory, main_file_name};
use sources::{NamedSources, PrefixMap, Unit};

/// How far a registration has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Progress {
    /// `done` of `total` modules are compiled again; `module` was the last.
    Proving {
        done: usize,
        total: usize,
        module: String,
    },
    /// All are proven; the store is being written.
    Storing,
}

/// A module of a build that is being registered.
#[derive(Clone, Copy, Debug)]
pub struct NewModule<'a> {
    pub source: &'a str,
    pub bitcode: &'a [u8],
}

/// Makes the graph of a build that is being registered; the error is a sentence
/// that names what is wrong and what to do.
pub type MakeGraph<'a> = &'a dyn Fn(&BuildId, &[NewModule<'_>], &Tools) -> Result<NewGraph, String>;

/// A build that is ready to be written.
pub struct PreparedBuild {
    pub manifest: BuildManifest,
    pub blobs: Vec<Vec<u8>>,
    pub graph: Option<NewGraph>,
}

/// The options of a registration.
#[derive(Clone, Debug)]
pub struct RegisterOptions {
    /// Where the program's own sources are.
    pub roots: Roots,
    pub sandbox: Sandbox,
    /// How long compiler and other tools may run, all together.
    pub time: Duration,
}

impl Default for RegisterOptions {
    fn default() -> Self {
        RegisterOptions {
            roots: Roots::default(),
            sandbox: Sandbox::Required,
            time: Tools::TIME,
        }
    }
}

/// Reads, checks and proves the binary at `path`.
pub fn prepare(
    path: &Path,
    options: &RegisterOptions,
    progress: &mut dyn FnMut(Progress),
    make_graph: Option<MakeGraph<'_>>,
) -> Result<PreparedBuild, RegisterError> {
    let bytes = read_binary(path)?;
    let (build_id, modules) = check(path, &bytes)?;
    let workspace = tempfile::tempdir().map_err(RegisterError::Workspace)?;
    options.sandbox.check().map_err(ToolError::from)?;
    let tools = Tools::new(options.sandbox, options.time);
    let bytes = with_plain_debug_info(path, bytes, workspace.path(), &tools)?;
    let damaged = |error: object::Error| RegisterError::Damaged {
        path: path.to_path_buf(),
        message: error.to_string(),
    };
    let file: ElfFile64<'_> = ElfFile64::parse(&*bytes).map_err(damaged)?;
    let named = sources::named_sources(&file).map_err(|error| RegisterError::Damaged {
        path: path.to_path_buf(),
        message: error.to_string(),
    })?;
    let names = source_names(&modules, &named.units);
    let maps = sources::prefix_maps(modules.iter().flat_map(|module| &module.flags));
    let claims = sources::claims(&modules, &names, &maps);
    let own = OwnFiles::new(&claims, &options.roots, path);

    let total = modules.len();
    let mut done = 0;
    let proving = |done, module: String| Progress::Proving {
        done,
        total,
        module,
    };
    progress(proving(0, String::new()));
    let proofs = prove(&bytes, &modules, workspace.path(), &tools, &mut |index| {
        done += 1;
        progress(proving(done, names[index].clone()));
    })
    .map_err(|error| match error {
        ProofError::Tool(error) => error.into(),
        ProofError::Binary(error) => damaged(error),
        ProofError::Grows { .. } => RegisterError::Damaged {
            path: path.to_path_buf(),
            message: error.to_string(),
        },
    })?;
    progress(Progress::Storing);
    let no_graph = |problem| RegisterError::NoGraph {
        path: path.to_path_buf(),
        problem,
    };
    let make = |make: MakeGraph<'_>| make(&build_id, &new_modules(&modules, &names), &tools);
    let graph = make_graph.map(make).transpose().map_err(no_graph)?;

    let mut kept = Kept::default();
    let (mut link, mut link_refused, mut foreign_inputs) = (None, None, Vec::new());
    if let Some(record) = link_record(&file) {
        let planned = plan_link(&record, &modules, &own, &tools)?;
        kept.blobs.extend(planned.blobs);
        foreign_inputs = planned.foreign;
        match planned.plan {
            Ok(plan) => link = Some(plan),
            Err(reason) => link_refused = Some(reason),
        }
    }
    let defined: HashSet<&str> = proofs
        .iter()
        .flat_map(|proof| proof.defined.iter().map(String::as_str))
        .collect();
    let foreign_code = foreign_code(&file, &defined, &foreign_inputs);
    let deployed = strip_for_deployment(&bytes, &tools)?;
    let (sources, files) = source_blobs(&named, &maps, &own, &mut kept);
    let manifest = BuildManifest {
        format: BuildManifest::FORMAT,
        build_id,
        program: path
            .file_name()
            .map(|name| name.to_string_lossy().into_owned())
            .unwrap_or_default(),
        original_path: std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf()),
        modules: module_entries(modules, proofs, names, &mut kept),
        foreign_code,
        sources,
        files,
        link,
        link_refused,
        without_sandbox: options.sandbox == Sandbox::Without,
        deployed: kept.add(deployed),
        binary: kept.add(bytes),
    };
    Ok(PreparedBuild {
        manifest,
        blobs: kept.blobs,
        graph,
    })
}

fn new_modules<'a>(modules: &'a [EmbeddedModule], names: &'a [String]) -> Vec<NewModule<'a>> {
    let pairs = modules.iter().zip(names);
    let new = |(module, source): (&'a EmbeddedModule, &'a String)| NewModule {
        source,
        bitcode: &module.bitcode,
    };
    pairs.map(new).collect()
}

#[derive(Default)]
struct Kept {
    blobs: Vec<Vec<u8>>,
}

impl Kept {
    fn add(&mut self, bytes: Vec<u8>) -> BlobId {
        let id = blobs::hash(&bytes);
        self.blobs.push(bytes);
        id
    }
}

fn read_binary(path: &Path) -> Result<Vec<u8>, RegisterError> {
    std::fs::read(path).map_err(|source| match source.kind() {
        std::io::ErrorKind::NotFound => RegisterError::Missing {
            path: path.to_path_buf(),
        },
        _ => RegisterError::Unreadable {
            path: path.to_path_buf(),
            source,
        },
    })
}

/// Refuses what cannot be registered, the most telling reason first.
fn check(path: &Path, bytes: &[u8]) -> Result<(BuildId, Vec<EmbeddedModule>), RegisterError> {
    let path = || path.to_path_buf();
    let file: ElfFile64<'_> =
        ElfFile64::parse(bytes).map_err(|_| RegisterError::NotAProgram { path: path() })?;
    let is_linked = matches!(
        file.kind(),
        object::ObjectKind::Executable | object::ObjectKind::Dynamic
    );
    if !is_x86_64(&file) || !is_linked {
        return Err(RegisterError::NotAProgram { path: path() });
    }
    let modules = embedded_modules(bytes).map_err(|source| RegisterError::Embedded {
        path: path(),
        source,
    })?;
    if modules.is_empty() {
        return Err(RegisterError::WithoutBitcode { path: path() });
    }
    if !file
        .symbols()
        .any(|symbol| symbol.kind() == SymbolKind::Text && symbol.is_definition())
    {
        return Err(RegisterError::Stripped {
            path: path(),
            what: "symbols",
        });
    }
    if file.section_by_name(".debug_info").is_none() {
        return Err(RegisterError::Stripped {
            path: path(),
            what: "debug information",
        });
    }
    match file.build_id() {
        Ok(Some(id)) if !id.is_empty() => Ok((BuildId(hex::encode(id)), modules)),
        _ => Err(RegisterError::WithoutBuildId { path: path() }),
    }
}

/// The binary with its debug sections uncompressed (`-gz`), so that every reader can read them.
fn with_plain_debug_info(
    path: &Path,
    bytes: Vec<u8>,
    workspace: &Path,
    tools: &Tools,
) -> Result<Vec<u8>, RegisterError> {
    let size = uncompressed_size(path, &bytes)?;
    if size > 0 {
        let arguments = ["--decompress-debug-sections".into()];
        objcopy(&bytes, workspace, &arguments, tools)
    } else {
        Ok(bytes)
    }
}

/// Bytes of all compressed sections when they are uncompressed, as their headers say:
/// a few kilobytes can claim gigabytes, so this comes before any of them is read.
fn uncompressed_size(path: &Path, bytes: &[u8]) -> Result<u64, RegisterError> {
    const MOST: u64 = 2 << 30;
    /// What debug info never reaches; it shrinks to a third or a tenth.
    const MOST_TIMES: u64 = 100;
    const SMALL: u64 = 64 << 20;
    let too_large = |size: u64, limit| RegisterError::TooLarge {
        path: path.to_path_buf(),
        megabytes: size >> 20,
        limit,
    };
    let Ok(file) = ElfFile64::<object::Endianness>::parse(bytes) else {
        return Ok(0);
    };
    let mut total: u64 = 0;
    for section in file.sections() {
        let Ok(range) = section.compressed_file_range() else {
            continue;
        };
        if range.format == object::CompressionFormat::None {
            continue;
        }
        let (size, stored) = (range.uncompressed_size, range.compressed_size);
        total = total.saturating_add(size);
        if size > SMALL && size / MOST_TIMES > stored {
            return Err(too_large(size, "a hundred times what is stored"));
        }
        if total > MOST {
            return Err(too_large(total, "2 GiB"));
        }
    }
    Ok(total)
}

fn link_record(file: &ElfFile64<'_>) -> Option<LinkRecord> {
    LinkRecord::from_bytes(file.section_by_name(LINK_SECTION)?.data().ok()?)
}

/// Full source paths of the modules: each is the first unit not yet taken that
/// has the recorded directory and file name. Units and modules come in link order.
fn source_names(modules: &[EmbeddedModule], units: &[Unit]) -> Vec<String> {
    let folder = |module: &EmbeddedModule| compilation_directory(&module.flags);
    let folders: Vec<PathBuf> = modules
        .iter()
        .map(folder)
        .map(Option::unwrap_or_default)
        .collect();
    // Names are asked for from the front, so the first unit of each comes last.
    let mut free: HashMap<(&Path, &OsStr), Vec<usize>> = HashMap::new();
    for (index, unit) in units.iter().enumerate().rev() {
        if let Some(name) = unit.source.file_name() {
            let of_name = free.entry((&unit.directory, name)).or_default();
            of_name.push(index);
        }
    }
    modules
        .iter()
        .zip(&folders)
        .map(|(module, directory)| {
            let name = main_file_name(&module.flags).unwrap_or("unknown");
            let of_name = free.get_mut(&(directory, OsStr::new(name)));
            match of_name.and_then(Vec::pop) {
                Some(index) => units[index].source.display().to_string(),
                None => directory.join(name).display().to_string(),
            }
        })
        .collect()
}

type Sources = BTreeMap<String, BlobId>;
type SourceFiles = BTreeMap<String, SourceFile>;

fn source_blobs(
    named: &NamedSources,
    maps: &BTreeSet<PrefixMap>,
    own: &OwnFiles,
    kept: &mut Kept,
) -> (Sources, SourceFiles) {
    let (mut sources, mut files) = (Sources::new(), SourceFiles::new());
    let main = named.units.iter().map(|unit| &unit.source);
    let all: BTreeSet<_> = named.files.iter().chain(main).collect();
    // `<stdin>` and `<built-in>` are no files.
    let is_file = |path: &&&PathBuf| !path.to_string_lossy().ends_with('>');
    for path in all.iter().filter(is_file) {
        let (file, text) = sources::source_file(path, maps, own);
        let name = path.display().to_string();
        if let Some(text) = text {
            sources.insert(name.clone(), kept.add(text));
        }
        files.insert(name, file);
    }
    (sources, files)
}

fn module_entries(
    modules: Vec<EmbeddedModule>,
    proofs: Vec<ModuleProof>,
    names: Vec<String>,
    kept: &mut Kept,
) -> Vec<ModuleEntry> {
    modules
        .into_iter()
        .zip(proofs)
        .zip(names)
        .map(|((module, proof), source)| ModuleEntry {
            source,
            bitcode: kept.add(module.bitcode),
            optimised: proof.optimised.map(|bytes| kept.add(bytes)),
            flags: module.flags,
            status: proof.status,
            functions: proof.functions,
            functions_not_in_binary: proof.functions_not_in_binary,
        })
        .collect()
}
