//! The bytes of a patch: `FSPATCH1`, the signature, then what is signed.
//!
//! ```text
//! "FSPATCH1"  u32 signature length  signature (minisign text)  signed part
//! signed part = u32 manifest length  manifest (JSON)  deflate(bsdiff)
//! ```
//! Lengths are little-endian. The signed part runs to the end of the file, so
//! nothing can be appended without breaking the signature.

use crate::PatchError;

const MAGIC: &[u8; 8] = b"FSPATCH1";

pub(crate) struct Container<'a> {
    pub signature: &'a str,
    pub signed: &'a [u8],
}

pub(crate) fn split(bytes: &[u8]) -> Result<Container<'_>, PatchError> {
    let rest = bytes
        .strip_prefix(MAGIC)
        .ok_or(PatchError::Malformed("it does not begin with FSPATCH1"))?;
    let (signature, signed) = counted(rest).ok_or(PatchError::Malformed("it is truncated"))?;
    let signature = std::str::from_utf8(signature)
        .map_err(|_| PatchError::Malformed("its signature is not text"))?;
    Ok(Container { signature, signed })
}

/// The manifest and the code of a signed part.
pub(crate) fn split_signed(signed: &[u8]) -> Result<(&[u8], &[u8]), PatchError> {
    counted(signed).ok_or(PatchError::Malformed("its manifest is truncated"))
}

fn counted(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = bytes.split_first_chunk::<4>()?;
    let length = usize::try_from(u32::from_le_bytes(*length)).ok()?;
    (length <= rest.len()).then(|| rest.split_at(length))
}

#[cfg(feature = "make")]
pub(crate) mod write {
    use super::MAGIC;

    pub(crate) fn signed(manifest: &[u8], code: &[u8]) -> Vec<u8> {
        [&length(manifest), manifest, code].concat()
    }

    pub(crate) fn container(signature: &str, signed: &[u8]) -> Vec<u8> {
        let signature = signature.as_bytes();
        [MAGIC.as_slice(), &length(signature), signature, signed].concat()
    }

    fn length(bytes: &[u8]) -> [u8; 4] {
        // Manifests and signatures are a few hundred bytes; both are made here.
        u32::try_from(bytes.len()).unwrap_or(u32::MAX).to_le_bytes()
    }
}
