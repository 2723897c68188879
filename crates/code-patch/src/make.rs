//! The server's half: diff, then sign.

use crate::{PatchError, container::write, sha256_hex};
use flate2::{Compression, write::DeflateEncoder};
use sketch_model::{BuildId, Execution, PatchId, PatchManifest, Schema, VariantRef};
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
    /// The tracked build of a campaign; `None` for a patch made by hand.
    pub variant: Option<VariantRef>,
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
    let result_sha256 = sha256_hex(result);
    let manifest = PatchManifest {
        schema: Schema::default(),
        build: terms.build,
        execution: match terms.variant {
            Some(variant) => Execution::Tracked(variant),
            None => Execution::Local {
                patch: PatchId::of_result(&result_sha256),
            },
        },
        version: terms.version,
        expires: terms.expires,
        watches_nothing: terms.watches_nothing,
        base_sha256: sha256_hex(base),
        result_sha256,
        result_size: result.len() as u64,
    };
    signed(&manifest, base, result, key)
}

fn signed(
    manifest: &PatchManifest,
    base: &[u8],
    result: &[u8],
    key: &SecretKey,
) -> Result<Vec<u8>, PatchError> {
    let manifest = serde_json::to_vec(manifest).map_err(|e| PatchError::Signing(e.to_string()))?;
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{PublicKey, open};

    #[test]
    fn a_patch_makes_a_tracked_build_and_nothing_else() {
        let (base, result) = (vec![1; 100], vec![2; 100]);
        let key = SecretKey::generate().unwrap();
        let public = PublicKey::from_text(&key.public_key_text().unwrap()).unwrap();
        let terms = Terms {
            build: BuildId("ab".into()),
            variant: None,
            version: 1,
            expires: 10,
            watches_nothing: false,
        };
        let patch = make(&base, &result, terms, &key).unwrap();
        let opened = open(&patch, &public, 1).unwrap();
        let by_hand = opened.manifest().clone();
        let patch = PatchId::of_result(&sha256_hex(&result));
        assert_eq!(by_hand.execution, Execution::Local { patch });
        let of_p = PatchManifest {
            execution: Execution::Original,
            ..by_hand
        };
        let patch = signed(&of_p, &base, &result, &key).unwrap();
        let refused = open(&patch, &public, 1).expect_err("makes nothing");
        assert!(
            refused.to_string().contains("names no tracked build"),
            "{refused}"
        );
    }
}
