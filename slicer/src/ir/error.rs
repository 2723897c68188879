//! What can go wrong between bytes and a [`crate::Program`].
//!
//! Each variant names the module and what to do about it; nothing here is
//! retried by itself, because the same bytes give the same error.

/// Why a program could not be loaded.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SlicerError {
    #[error("no bitcode modules were given; register a binary that was built with `failsketch cc`")]
    NoModules,
    #[error(
        "module {module} is not LLVM bitcode (it starts with {found}); \
         rebuild it with `failsketch cc` and register the binary again"
    )]
    NotBitcode { module: String, found: String },
    #[error(
        "module {module} cannot be read as LLVM 19 bitcode ({problem}); \
         it is truncated, damaged or from a newer compiler: register the binary again"
    )]
    Unreadable { module: String, problem: String },
    #[error(
        "module {module} has no debug info, so nothing in it can be tied to source lines; \
         rebuild it with -g (`failsketch cc` adds it)"
    )]
    NoDebugInfo { module: String },
}
