//! The agent's half: verify, then apply.

use crate::{PatchError, container, sha256_hex};
use flate2::read::DeflateDecoder;
use sketch_model::PatchManifest;
use std::io::Read;

/// A tracked build is P plus hooks and the runtime; a result that claims to be
/// larger than this is refused before anything is allocated for it.
const LARGEST_RESULT: u64 = 4 << 30;

/// The server's key, pinned by the operator.
pub struct PublicKey {
    key: minisign_verify::PublicKey,
    fingerprint: String,
}

impl PublicKey {
    /// Reads the text of a `.pub` file, or the key's base64 line alone.
    pub fn from_text(text: &str) -> Result<Self, PatchError> {
        let text = text.trim();
        let key = if text.contains('\n') {
            minisign_verify::PublicKey::decode(text)
        } else {
            minisign_verify::PublicKey::from_base64(text)
        };
        let line = text.lines().last().unwrap_or_default();
        Ok(PublicKey {
            key: key.map_err(|e| PatchError::BadPublicKey(e.to_string()))?,
            fingerprint: sha256_hex(line.trim().as_bytes()),
        })
    }

    /// A name for the key, in hex.
    pub fn fingerprint(&self) -> &str {
        &self.fingerprint
    }
}

/// A patch whose signature, format and expiry have been checked.
#[derive(Debug)]
pub struct VerifiedPatch {
    manifest: PatchManifest,
    code: Vec<u8>,
}

/// Checks a patch as it came from the network. `now` is in seconds since 1970.
pub fn open(bytes: &[u8], key: &PublicKey, now: u64) -> Result<VerifiedPatch, PatchError> {
    let container = container::split(bytes)?;
    let signature = minisign_verify::Signature::decode(container.signature)
        .map_err(|e| PatchError::BadSignature(e.to_string()))?;
    key.key
        .verify(container.signed, &signature, false)
        .map_err(|e| PatchError::BadSignature(e.to_string()))?;
    let (manifest, code) = container::split_signed(container.signed)?;
    let manifest: PatchManifest = serde_json::from_slice(manifest)
        .map_err(|_| PatchError::Malformed("its manifest cannot be read"))?;
    manifest.schema.check("patch")?;
    if manifest.execution.is_original() {
        return Err(PatchError::Malformed("it names no tracked build"));
    }
    if manifest.expires <= now {
        return Err(PatchError::Expired {
            expires: manifest.expires,
            now,
        });
    }
    Ok(VerifiedPatch {
        manifest,
        code: code.to_vec(),
    })
}

impl VerifiedPatch {
    pub fn manifest(&self) -> &PatchManifest {
        &self.manifest
    }

    /// The tracked build, if `base` is the very file the patch was made for.
    pub fn apply(&self, base: &[u8]) -> Result<Vec<u8>, PatchError> {
        let found = sha256_hex(base);
        if found != self.manifest.base_sha256 {
            return Err(PatchError::WrongBase {
                expected: self.manifest.base_sha256.clone(),
                found,
            });
        }
        if self.manifest.result_size > LARGEST_RESULT {
            return Err(PatchError::Malformed("its result is larger than 4 GiB"));
        }
        // bsdiff never needs more code than the larger file twice over plus
        // control words; the limit keeps a hostile deflate stream bounded.
        let limit = 64 + 4 * (base.len() as u64 + self.manifest.result_size);
        let mut code = DeflateDecoder::new(self.code.as_slice()).take(limit);
        let mut result = Vec::new();
        bsdiff::patch(base, &mut code, &mut result)
            .map_err(|e| PatchError::Corrupt(e.to_string()))?;
        let found = sha256_hex(&result);
        if found != self.manifest.result_sha256 {
            return Err(PatchError::WrongResult {
                expected: self.manifest.result_sha256.clone(),
                found,
            });
        }
        Ok(result)
    }
}
