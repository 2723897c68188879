//! What commands and server both open: the token file, the signing key, and the files
//! that nobody else may read (`private_files`, which the agent uses, too).
//!
//! A crate of its own, so that `failsketch token` and `failsketch patch` need no server.

mod role;
pub mod signing_key;
mod token;
mod token_file;

pub use private_files;
pub use role::Role;
pub use token::Token;
pub use token_file::{TokenEntry, TokenFile, TokenFileError, TokenListed};
