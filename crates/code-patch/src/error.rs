//! Why a patch is refused. Each refusal names what was expected and what came.

#[derive(Debug, thiserror::Error)]
pub enum PatchError {
    #[error(
        "this is not a Failsketch patch: {0}; fetch it again from the server that the agent is set up for"
    )]
    Malformed(&'static str),
    #[error(
        "the patch's signature does not match the pinned key ({0}); it was altered on the way or comes from another server"
    )]
    BadSignature(String),
    #[error(
        "the pinned key is not a minisign public key ({0}); copy signing.pub from the server's data folder"
    )]
    BadPublicKey(String),
    #[error("the signing key cannot be read ({0}); remove it and the server makes a new pair")]
    BadSecretKey(String),
    #[error("signing failed: {0}")]
    Signing(String),
    #[error(transparent)]
    Schema(#[from] sketch_model::UnknownSchema),
    #[error(
        "the patch expired at {expires} (seconds since 1970) and it is now {now}; ask the server for a new one"
    )]
    Expired { expires: u64, now: u64 },
    #[error(
        "the patch is for a file with SHA-256 {expected}, and the program has {found}; run the file that `failsketch register --deploy` wrote"
    )]
    WrongBase { expected: String, found: String },
    #[error("the patched program has SHA-256 {found} instead of {expected}; it is not run")]
    WrongResult { expected: String, found: String },
    #[error("the patch's code cannot be unpacked: {0}")]
    Corrupt(String),
}
