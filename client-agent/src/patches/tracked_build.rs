//! The tracked build that the server assigned: fetched, verified, applied beside
//! the original, and kept as a sealed file in memory that is executed itself.

use crate::delivery::client::Server;
use crate::error::AgentError;
use crate::patches::rollback_guard::Newest;
use crate::process::modules::MainModule;
use crate::process::sys::{self, MemoryUse};
use crate::run::program::KnownProgram;
use code_patch::PublicKey;
use formats::elf::ElfFacts;
use private_files::write_private_unsynced;
use runtime::layout::START_MARK;
use sketch_model::{Execution, VariantRef};
use std::{
    ffi::CString,
    fs::{self, File},
    io::Write,
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        unix::ffi::OsStrExt,
    },
    path::{Path, PathBuf},
    sync::Arc,
    time::{SystemTime, UNIX_EPOCH},
};

/// A verified tracked build, ready to execute.
#[derive(Debug)]
pub struct TrackedBuild {
    pub execution: Execution,
    file: OwnedFd,
    main: MainModule,
    start: Option<u64>,
    watches: bool,
}

impl TrackedBuild {
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    /// One that is the program itself, for tests of what comes after a run.
    #[cfg(test)]
    pub fn that_is(program: &KnownProgram, execution: Execution) -> TrackedBuild {
        let applied = Applied {
            bytes: program.bytes.clone(),
            watches: true,
            version: 1,
        };
        seal(applied, program, execution).expect("can be sealed")
    }

    /// Where the runtime in it starts, as its file counts addresses.
    pub fn start(&self) -> Option<u64> {
        self.start
    }

    /// Whether it aims watchpoints. Otherwise opening some would only make its start and
    /// its threads dearer.
    pub fn watches(&self) -> bool {
        self.watches
    }

    /// Its module: mapped from memory, known by the original's path.
    pub fn main_module(&self) -> MainModule {
        self.main.clone()
    }
}

/// The tracked build of a patch that the operator names, of a campaign or made by hand.
pub fn from_file(
    path: &Path,
    key: Option<&PublicKey>,
    program: &KnownProgram,
) -> Result<TrackedBuild, AgentError> {
    let key = key.ok_or(AgentError::NoKey)?;
    let unread = |e: std::io::Error| {
        AgentError::PatchRefused(format!("{} cannot be read: {e}", path.display()))
    };
    let bytes = fs::read(path).map_err(unread)?;
    let refused = |e: code_patch::PatchError| AgentError::PatchRefused(e.to_string());
    let execution = code_patch::open(&bytes, key, now())
        .map_err(refused)?
        .manifest()
        .execution;
    let result = apply(&bytes, key, program, execution)?;
    seal(result, program, execution)
}

/// Seconds since 1970.
fn now() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_secs())
}

/// Where tracked builds come from.
pub struct PatchSource<'a> {
    pub server: &'a Server,
    pub key: Option<&'a PublicKey>,
    pub cache: &'a Path,
}

impl PatchSource<'_> {
    /// Makes the tracked build of a variant.
    pub fn build(
        &self,
        program: &KnownProgram,
        variant: VariantRef,
    ) -> Result<TrackedBuild, AgentError> {
        let key = self.key.ok_or(AgentError::NoKey)?;
        let execution = Execution::Tracked(variant);
        let cached = self.cache_path(program, variant);
        // A cached patch that no longer passes (expired, or left by another
        // server at the same address) is fetched once more.
        if let Ok(patch) = fs::read(&cached)
            && let Ok(result) = apply(&patch, key, program, execution)
            && self.admit(&result, key, program, variant).is_ok()
        {
            return seal(result, program, execution);
        }
        let patch = self.server.patch(variant)?;
        let result = apply(&patch, key, program, execution)?;
        self.admit(&result, key, program, variant)?;
        // Only a patch that passed is kept; without a cache it is just slower.
        let _ = write_private_unsynced(&cached, &patch);
        seal(result, program, execution)
    }

    /// Refuses a patch that is older than one that was run before.
    fn admit(
        &self,
        patch: &Applied,
        key: &PublicKey,
        program: &KnownProgram,
        variant: VariantRef,
    ) -> Result<(), AgentError> {
        let newest = Newest::kept(self.cache, key.fingerprint(), &program.build, variant);
        let admitted = newest.change(|newest| newest.admit(variant, patch.version));
        admitted.map_err(|newer| {
            AgentError::PatchRefused(format!(
                "it is version {} of iteration {}, and {newer} was run here before: either it \
                 was replaced just now, or somebody serves an old patch again. If the server was \
                 restored from a backup, remove {}",
                patch.version,
                variant.iteration,
                newest.file().display()
            ))
        })
    }

    /// Where the patch of a variant is kept.
    pub fn cache_path(&self, program: &KnownProgram, variant: VariantRef) -> PathBuf {
        let origin = code_patch::sha256_hex(self.server.name().as_bytes());
        self.cache.join(format!(
            "patch-{}-{}-{}-{}-{}",
            &origin[..16],
            program.build,
            variant.campaign,
            variant.iteration,
            variant.plan
        ))
    }
}

fn apply(
    patch: &[u8],
    key: &PublicKey,
    program: &KnownProgram,
    execution: Execution,
) -> Result<Applied, AgentError> {
    let refused = |e: code_patch::PatchError| AgentError::PatchRefused(e.to_string());
    let patch = code_patch::open(patch, key, now()).map_err(refused)?;
    let manifest = patch.manifest();
    if manifest.execution != execution || manifest.build != program.build {
        return Err(AgentError::PatchRefused(format!(
            "it is for {} of build {}, and {execution} of build {} was assigned",
            manifest.execution, manifest.build, program.build
        )));
    }
    Ok(Applied {
        watches: !manifest.watches_nothing,
        version: manifest.version,
        bytes: patch.apply(&program.bytes).map_err(refused)?,
    })
}

/// What a patch makes of P.
struct Applied {
    bytes: Vec<u8>,
    watches: bool,
    version: u64,
}

fn seal(
    Applied { bytes, watches, .. }: Applied,
    program: &KnownProgram,
    execution: Execution,
) -> Result<TrackedBuild, AgentError> {
    let facts = ElfFacts::read(&bytes)
        .ok_or_else(|| AgentError::PatchRefused("its result is not a 64-bit ELF file".into()))?;
    if let Some(name) = facts.loading.bound_to_its_folder() {
        return Err(AgentError::PatchRefused(format!(
            "the program looks for libraries beside itself ({name}), and a tracked build has no \
             folder; link it with absolute paths"
        )));
    }
    // The kernel allows 249 bytes; the rest of a longer name says nothing new.
    let mut name = program.file_name().as_bytes().to_vec();
    name.truncate(200);
    let name = CString::new(name).unwrap_or_else(|_| c"program".to_owned());
    let file =
        sys::memfd(&name, MemoryUse::Program).map_err(|e| AgentError::call("memfd_create", e))?;
    let mut file = File::from(file);
    file.write_all(&bytes)
        .map_err(|e| AgentError::call("write of the tracked build", e))?;
    sys::seal_content(file.as_fd()).map_err(|e| AgentError::call("fcntl(F_ADD_SEALS)", e))?;
    Ok(TrackedBuild {
        execution,
        file: file.into(),
        start: facts.behind_mark(&bytes, &START_MARK.map(u64::to_le_bytes).concat()),
        watches,
        main: MainModule {
            path: program.real_path.to_string_lossy().into_owned(),
            mapped_as: format!("/memfd:{} (deleted)", name.to_string_lossy()),
            facts: Arc::new(facts),
        },
    })
}
