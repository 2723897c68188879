//! Signed binary patches from P to a tracked build P′.
//!
//! A patch is code shipped to a fleet, so trust is a type: bytes from the
//! network become a [`VerifiedPatch`] only through [`open`], which checks the
//! signature over *everything* that follows before it reads any of it, and a
//! `VerifiedPatch` yields bytes only through [`VerifiedPatch::apply`], which
//! checks the base before and the result after.
//!
//! Deliberately absent: files, the network, LLVM. An agent links only the
//! verifying half; making patches is behind the feature `make`.

mod container;
mod error;
mod open;

#[cfg(feature = "make")]
mod make;

pub use error::PatchError;
#[cfg(feature = "make")]
pub use make::{SecretKey, Terms, make};
pub use open::{PublicKey, VerifiedPatch, open};

use sha2::{Digest, Sha256};

/// SHA-256 of a file's bytes, in the form that manifests carry.
pub fn sha256_hex(bytes: &[u8]) -> String {
    hex::encode(Sha256::digest(bytes))
}
