//! The build store: `<root>/blobs/<sha256>` and `<root>/builds/<build-id>.json`
//! (and graphs, see `graphs`).
//!
//! The manifest is written last, so a build is in the store whole or not at
//! all. Nothing is created by opening or reading a store.
//!
//! Deliberately absent: removing builds. Blobs are shared between builds, and
//! a campaign may still need one.

use std::path::{Path, PathBuf};

use sketch_model::BuildId;

use crate::blobs::{Blobs, write_whole};
use crate::error::{RegisterError, StoreError};
use crate::manifest::{BlobId, BuildManifest, KeptFile};
use crate::register::{self, MakeGraph, PreparedBuild, Progress, RegisterOptions};
use crate::tools::Tools;

/// A folder of registered builds.
#[derive(Clone, Debug)]
pub struct BuildStore {
    root: PathBuf,
}

impl BuildStore {
    pub fn open(root: impl Into<PathBuf>) -> Self {
        BuildStore { root: root.into() }
    }

    /// `$FAILSKETCH_STORE`, else `$XDG_DATA_HOME/failsketch/builds`, else
    /// `~/.local/share/failsketch/builds`.
    pub fn default_root() -> Result<PathBuf, StoreError> {
        let variable = |name| {
            std::env::var_os(name)
                .filter(|value| !value.is_empty())
                .map(PathBuf::from)
        };
        variable("FAILSKETCH_STORE")
            .or_else(|| variable("XDG_DATA_HOME").map(|home| home.join("failsketch/builds")))
            .or_else(|| variable("HOME").map(|home| home.join(".local/share/failsketch/builds")))
            .ok_or(StoreError::NoHome)
    }

    pub fn root(&self) -> &Path {
        &self.root
    }

    fn blobs(&self) -> Blobs {
        Blobs::new(self.root.join("blobs"))
    }

    fn manifest_path(&self, build_id: &BuildId) -> Result<PathBuf, StoreError> {
        // A build-id comes from the network too, and becomes a file name here.
        let is_hex = build_id.0.bytes().all(|byte| byte.is_ascii_hexdigit());
        if build_id.0.is_empty() || !is_hex {
            return Err(StoreError::NotABuildId(build_id.0.clone()));
        }
        Ok(self.root.join(format!("builds/{build_id}.json")))
    }

    /// Proves the binary at `path` and keeps it with all that diagnosis needs.
    pub fn register(
        &self,
        path: &Path,
        options: &RegisterOptions,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<RegisteredBuild, RegisterError> {
        self.register_prepared(register::prepare(path, options, progress, None)?)
    }

    /// The same, and makes and keeps the build's graph. Where that cannot be
    /// made the binary is refused.
    pub fn register_with_graph(
        &self,
        path: &Path,
        options: &RegisterOptions,
        progress: &mut dyn FnMut(Progress),
        make_graph: MakeGraph<'_>,
    ) -> Result<RegisteredBuild, RegisterError> {
        let prepared = register::prepare(path, options, progress, Some(make_graph))?;
        self.register_prepared(prepared)
    }

    fn register_prepared(&self, prepared: PreparedBuild) -> Result<RegisteredBuild, RegisterError> {
        let blobs = self.blobs();
        for bytes in &prepared.blobs {
            blobs.put(bytes)?;
        }
        let build = RegisteredBuild {
            store: self.clone(),
            manifest: prepared.manifest,
        };
        if let Some(graph) = &prepared.graph {
            build.keep_graph(graph)?;
        }
        let entry = self.manifest_path(&build.manifest.build_id)?;
        let text = serde_json::to_vec_pretty(&build.manifest).map_err(|error| StoreError::Io {
            path: entry.clone(),
            action: "written",
            source: error.into(),
        })?;
        write_whole(&entry, &text)?;
        Ok(build)
    }

    /// All builds, by program name and then build-id. An empty or absent store has none.
    pub fn list(&self) -> Result<Vec<BuildManifest>, StoreError> {
        let folder = self.root.join("builds");
        let failed = |source| StoreError::Io {
            path: folder.clone(),
            action: "read",
            source,
        };
        let entries = match std::fs::read_dir(&folder) {
            Ok(entries) => entries,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(failed(error)),
        };
        let mut manifests = Vec::new();
        for entry in entries {
            let path = entry.map_err(failed)?.path();
            if path
                .extension()
                .is_some_and(|extension| extension == "json")
            {
                manifests.push(read_manifest(&path)?);
            }
        }
        manifests.sort_by(|left, right| {
            (&left.program, &left.build_id).cmp(&(&right.program, &right.build_id))
        });
        Ok(manifests)
    }

    pub fn load(&self, build_id: &BuildId) -> Result<RegisteredBuild, StoreError> {
        let path = self.manifest_path(build_id)?;
        if !path.exists() {
            return Err(StoreError::Unknown {
                build_id: build_id.clone(),
                root: self.root.clone(),
            });
        }
        let manifest = read_manifest(&path)?;
        if manifest.build_id != *build_id {
            return Err(StoreError::Damaged { entry: path });
        }
        Ok(RegisteredBuild {
            store: self.clone(),
            manifest,
        })
    }
}

fn read_manifest(path: &Path) -> Result<BuildManifest, StoreError> {
    let text = std::fs::read(path).map_err(|source| StoreError::Io {
        path: path.to_path_buf(),
        action: "read",
        source,
    })?;
    let damaged = || StoreError::Damaged {
        entry: path.to_path_buf(),
    };
    let value: serde_json::Value = serde_json::from_slice(&text).map_err(|_| damaged())?;
    let format = value.get("format").and_then(serde_json::Value::as_u64);
    match format.and_then(|format| u32::try_from(format).ok()) {
        Some(BuildManifest::OLDEST..=BuildManifest::FORMAT) => {
            serde_json::from_value(value).map_err(|_| damaged())
        }
        Some(found) => Err(StoreError::OtherFormat {
            entry: path.to_path_buf(),
            found,
            expected: BuildManifest::FORMAT,
        }),
        None => Err(damaged()),
    }
}

/// A build of the store; blobs are read, and verified, when asked for.
#[derive(Clone, Debug)]
pub struct RegisteredBuild {
    store: BuildStore,
    manifest: BuildManifest,
}

impl RegisteredBuild {
    pub fn manifest(&self) -> &BuildManifest {
        &self.manifest
    }

    /// The tools that read this build's bitcode, for one piece of work.
    pub fn tools(&self) -> Tools {
        Tools::new(self.manifest.sandbox(), Tools::TIME)
    }

    pub(crate) fn root(&self) -> &Path {
        &self.store.root
    }

    fn blob(&self, id: &BlobId) -> Result<Vec<u8>, StoreError> {
        self.store.blobs().get(id)
    }

    /// The full binary: as linked, with debug info.
    pub fn binary(&self) -> Result<Vec<u8>, StoreError> {
        self.blob(&self.manifest.binary)
    }

    /// The binary for the fleet: same code, no debug info, no bitcode.
    pub fn deployed(&self) -> Result<Vec<u8>, StoreError> {
        self.blob(&self.manifest.deployed)
    }

    /// Module `index`, from before optimisation.
    pub fn module_bitcode(&self, index: usize) -> Result<Vec<u8>, StoreError> {
        self.blob(&self.module(index)?.bitcode)
    }

    /// Module `index`, as code generation takes it.
    pub fn optimised_bitcode(&self, index: usize) -> Result<Vec<u8>, StoreError> {
        let module = self.module(index)?;
        match &module.optimised {
            Some(id) => self.blob(id),
            None => Err(StoreError::NotCompiled {
                module: module.source.clone(),
            }),
        }
    }

    fn module(&self, index: usize) -> Result<&crate::ModuleEntry, StoreError> {
        self.manifest
            .modules
            .get(index)
            .ok_or_else(|| StoreError::NoSuchModule {
                build_id: self.manifest.build_id.clone(),
                index,
            })
    }

    pub(crate) fn kept_file(&self, file: &KeptFile) -> Result<Vec<u8>, StoreError> {
        self.blob(&file.blob)
    }

    /// The text of a source file, by its path in debug info, or by the end of
    /// that path when only one file ends so.
    pub fn source(&self, file: &str) -> Option<String> {
        let bytes = self.blob(self.source_blob(file)?).ok()?;
        Some(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// Line `line` (from 1) of a source file, without its line end.
    pub fn source_line(&self, file: &str, line: u32) -> Option<String> {
        let index = usize::try_from(line).ok()?.checked_sub(1)?;
        self.source(file)?.lines().nth(index).map(str::to_string)
    }

    fn source_blob(&self, file: &str) -> Option<&BlobId> {
        let clean = crate::register::sources::normalised(Path::new(file));
        if let Some(id) = self.manifest.sources.get(&*clean.to_string_lossy()) {
            return Some(id);
        }
        let mut ending = self
            .manifest
            .sources
            .iter()
            .filter(|(path, _)| Path::new(path).ends_with(&clean));
        match (ending.next(), ending.next()) {
            (Some((_, id)), None) => Some(id),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Written by the last version that listed shared libraries.
    const FORMAT_1: &str = include_str!("../tests/data/manifest-format-1.json");

    #[test]
    fn a_manifest_with_libraries_is_still_read_and_a_newer_one_refused() {
        let root = tempfile::tempdir().unwrap();
        let store = BuildStore::open(root.path());
        let id = BuildId("e529d04aabc205da1a419927b13dc17d42601473".into());
        let path = store.manifest_path(&id).unwrap();
        write_whole(&path, FORMAT_1.as_bytes()).unwrap();
        assert!(FORMAT_1.contains("\"libraries\""));
        let manifest = store.load(&id).unwrap().manifest;
        assert_eq!((manifest.format, &*manifest.program), (1, "global_same"));
        assert_eq!(manifest.trackable_modules(), 1);
        assert_eq!(store.list().unwrap(), [manifest]);

        let newer = FORMAT_1.replace("\"format\": 1", "\"format\": 3");
        write_whole(&path, newer.as_bytes()).unwrap();
        let error = store.load(&id).unwrap_err().to_string();
        assert!(error.contains("format 3, this one reads 2"), "{error}");
    }
}
