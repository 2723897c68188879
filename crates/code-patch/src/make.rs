//! The server's half: diff, then sign.

use crate::{PatchError, container::write, sha256_hex};
use flate2::{Compression, write::DeflateEncoder};
use sketch_model::{BuildId, PatchManifest, Schema, VariantRef};
use std::io::Write;

/// The server's signing key. Unencrypted: the file's mode protects it.
pub struct SecretKey(minisign::SecretKey);

impl SecretKey {
    pub fn generate() -> Result<Self, PatchError> {
        minisign::KeyPair::generate_unencrypted_keypair()
            .map(|pair| SecretKey(pair.sk))
            .map_err(|e| PatchError::Signing(e.to_string()))
    }

    pub fn from_text(text: &str) -> Result<Self, PatchError> {
        minisign::SecretKeyBox::from_string(text)
            .and_then(|boxed| boxed.into_unencrypted_secret_key())
            .map(SecretKey)
            .map_err(|e| PatchError::BadSecretKey(e.to_string()))
    }

    pub fn to_text(&self) -> Result<String, PatchError> {
        self.0
            .to_box(Some("Failsketch signing key"))
            .map(|boxed| boxed.into_string())
            .map_err(|e| PatchError::BadSecretKey(e.to_string()))
    }

    /// The text of the `.pub` file that operators pin.
    pub fn public_key_text(&self) -> Result<String, PatchError> {
        minisign::PublicKey::from_secret_key(&self.0)
            .and_then(|key| key.to_box())
            .map(|boxed| boxed.into_string())
            .map_err(|e| PatchError::BadSecretKey(e.to_string()))
    }
}

/// What a patch is for; the words of its manifest that are not about bytes.
#[derive(Clone, Debug)]
pub struct Terms {
    pub build: BuildId,
    pub variant: VariantRef,
    pub version: u64,
    pub expires: u64,
    pub watches_nothing: bool,
}

/// Makes the signed patch that turns `base` into `result`.
pub fn make(
    base: &[u8],
    result: &[u8],
    terms: Terms,
    key: &SecretKey,
) -> Result<Vec<u8>, PatchError> {
    let manifest = PatchManifest {
        schema: Schema::default(),
        build: terms.build,
        variant: terms.variant,
        version: terms.version,
        expires: terms.expires,
        watches_nothing: terms.watches_nothing,
        base_sha256: sha256_hex(base),
        result_sha256: sha256_hex(result),
        result_size: result.len() as u64,
    };
    let manifest = serde_json::to_vec(&manifest).map_err(|e| PatchError::Signing(e.to_string()))?;
    let mut code = DeflateEncoder::new(Vec::new(), Compression::best());
    let corrupt = |e: std::io::Error| PatchError::Corrupt(e.to_string());
    let mut difference = Vec::new();
    bsdiff::diff(base, result, &mut difference).map_err(corrupt)?;
    code.write_all(&difference).map_err(corrupt)?;
    let signed = write::signed(&manifest, &code.finish().map_err(corrupt)?);
    let signature = minisign::sign(
        None,
        &key.0,
        signed.as_slice(),
        Some("Failsketch patch"),
        None,
    )
    .map_err(|e| PatchError::Signing(e.to_string()))?;
    Ok(write::container(&signature.into_string(), &signed))
}
