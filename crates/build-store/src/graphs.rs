//! The graph that slicing makes of a build, kept so that it is made once.
//!
//! To this room a graph is bytes with a version. It lies in
//! `<root>/graphs/<address>`, where the address is the SHA-256 of the version and
//! of the modules' own addresses: other bitcode, or another version of the
//! analysis, is another file, and a file never has to be replaced because it
//! grew old. Its first bytes are a mark and the SHA-256 of the rest.
//!
//! A graph can always be made again. So one that is absent, cut off or damaged
//! is simply not there.

use std::path::PathBuf;

use sha2::{Digest, Sha256};

use crate::blobs::write_whole;
use crate::error::StoreError;
use crate::manifest::BuildManifest;
use crate::store::RegisteredBuild;

const MARK: &[u8; 16] = b"failsketch graph";
const DIGEST: usize = 32;

/// A graph of a build in the making.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewGraph {
    /// What made it; see [`RegisteredBuild::graph`].
    pub version: String,
    pub bytes: Vec<u8>,
}

impl RegisteredBuild {
    /// The graph that this version of the analysis kept, if it is there and whole.
    pub fn graph(&self, version: &str) -> Option<Vec<u8>> {
        let mut bytes = std::fs::read(self.graph_path(version)).ok()?;
        let rest = bytes.strip_prefix(MARK)?;
        let (digest, body) = rest.split_at_checked(DIGEST)?;
        if Sha256::digest(body)[..] != *digest {
            return None;
        }
        bytes.drain(..MARK.len() + DIGEST);
        Some(bytes)
    }

    /// Keeps a graph; it is seen whole or not at all.
    pub fn keep_graph(&self, graph: &NewGraph) -> Result<(), StoreError> {
        let mut bytes = MARK.to_vec();
        bytes.extend(Sha256::digest(&graph.bytes));
        bytes.extend(&graph.bytes);
        write_whole(&self.graph_path(&graph.version), &bytes)
    }

    fn graph_path(&self, version: &str) -> PathBuf {
        let name = address(self.manifest(), version);
        self.root().join("graphs").join(name)
    }
}

fn address(manifest: &BuildManifest, version: &str) -> String {
    let mut hash = Sha256::new();
    let modules = manifest.modules.iter().map(|module| &*module.bitcode.0);
    for part in [version, &*manifest.build_id.0].into_iter().chain(modules) {
        hash.update(part);
        hash.update([0]);
    }
    hex::encode(hash.finalize())
}
