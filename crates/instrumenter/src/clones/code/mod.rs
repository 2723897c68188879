//! The object with the cloned functions: extracted, compared with P's own code, bound to P's symbols.

pub(crate) mod bind;
pub(crate) mod extract;
pub(crate) mod input;
pub(crate) mod same_code;
