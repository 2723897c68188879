//! Why a plan cannot be carried out by clones, so that the program is linked again.
//!
//! A refusal is not an error: the relink does the same work more slowly. It is
//! kept and shown, because it says which programs are worth more effort here.

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    #[error("the program is a shared object")]
    SharedObject,
    #[error("the program's ELF file has {0}")]
    Unusual(String),
    #[error("{function} jumps to addresses of its own blocks, which data may hold")]
    ComputedGoto { function: String },
    #[error("{function} has assembly that writes into other sections")]
    AssemblyElsewhere { function: String },
    #[error("{function} has {size} bytes of code: too short for a jump to its clone")]
    TooShort { function: String, size: u64 },
    #[error("no function {function} of the binary has the code that its bitcode gives")]
    OtherCode { function: String },
    #[error("several functions {function} of the binary have the code that its bitcode gives")]
    Ambiguous { function: String },
    #[error("{function} shares its code with {other}")]
    Folded { function: String, other: String },
    #[error("the binary does not say where {symbol} is")]
    Unbound { symbol: String },
    #[error("a clone refers to {symbol} by relocation type {kind}, which is not handled")]
    Relocation { symbol: String, kind: u32 },
    #[error("{what} is out of reach of the appended segment")]
    OutOfReach { what: String },
    #[error("{module} could not be taken apart: {reason}")]
    Extract { module: String, reason: String },
}

impl Refusal {
    pub fn unusual(what: impl Into<String>) -> Refusal {
        Refusal::Unusual(what.into())
    }
}

impl From<formats::segments::HeaderError> for Refusal {
    fn from(error: formats::segments::HeaderError) -> Self {
        Refusal::Unusual(error.to_string())
    }
}

impl From<object::Error> for Refusal {
    fn from(error: object::Error) -> Self {
        Refusal::Unusual(format!("a part that cannot be read: {error}"))
    }
}
