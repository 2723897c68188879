//! How much a load through a pointer may have to do with a store through another.
//!
//! Each mode answers one question: which writes may have put there what this
//! load reads? Locals of the reader's own function and globals that are named
//! on both sides are the same in both. Matching by field is what the server
//! does; the points-to analysis is for `failsketch slice --alias andersen`.

use std::fmt;
use std::str::FromStr;

/// Which stores a load through a pointer may see.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Alias {
    /// Those of the same field of the same struct type, whatever object it
    /// belongs to.
    #[default]
    Field,
    /// What an inclusion-based points-to analysis of the whole program allows.
    Andersen,
}

impl fmt::Display for Alias {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Alias::Field => "field",
            Alias::Andersen => "andersen",
        })
    }
}

/// A word that names no mode.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0} is no alias mode; choose field or andersen")]
pub struct UnknownAlias(String);

impl FromStr for Alias {
    type Err = UnknownAlias;

    fn from_str(word: &str) -> Result<Alias, UnknownAlias> {
        match word {
            "field" => Ok(Alias::Field),
            "andersen" => Ok(Alias::Andersen),
            other => Err(UnknownAlias(other.to_owned())),
        }
    }
}
