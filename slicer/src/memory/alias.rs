//! How much a load through a pointer may have to do with a store through another.
//!
//! Each mode answers one question: which writes may have put there what this
//! load reads? Locals of the reader's own function and globals that are named
//! on both sides are the same in all three.

use std::fmt;
use std::str::FromStr;

/// The choice between following less and following more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Alias {
    /// The same named location: the same global, local or field, and for a
    /// field through the same derivation. Both pointers must come from one
    /// origin: a variable, an allocation, or a pointer kept under one name.
    None,
    /// The same field of the same struct type, whatever object it belongs to.
    #[default]
    Field,
    /// What an inclusion-based points-to analysis of the whole program allows.
    Andersen,
}

impl fmt::Display for Alias {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Alias::None => "none",
            Alias::Field => "field",
            Alias::Andersen => "andersen",
        })
    }
}

/// A word that names no mode.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0} is no alias mode; choose none, field or andersen")]
pub struct UnknownAlias(String);

impl FromStr for Alias {
    type Err = UnknownAlias;

    fn from_str(word: &str) -> Result<Alias, UnknownAlias> {
        match word {
            "none" => Ok(Alias::None),
            "field" => Ok(Alias::Field),
            "andersen" => Ok(Alias::Andersen),
            other => Err(UnknownAlias(other.to_owned())),
        }
    }
}
