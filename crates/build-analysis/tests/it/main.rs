//! Addresses of real binaries to statements of their builds.

mod locate;
