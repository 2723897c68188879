//! Intel PT traces that came with runs: decoded in a process with limits.

pub(crate) mod decode;
