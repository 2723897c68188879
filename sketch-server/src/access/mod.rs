//! Who may do what: tokens with roles, a gate in front of every group of routes,
//! and a login page for browsers.
//!
//! A server on a loopback address without a token file is open, so that trying
//! Failsketch needs no set-up. From the moment a token file exists, wherever the
//! server listens, every request but health, login and the public key needs a
//! token; it stays so when the last token is revoked.
//!
//! Deliberately absent: passwords, users and sessions of our own. A token is 256
//! random bits, so its plain hash can be stored, and what a browser keeps is the
//! token itself: revoking it ends everything that was done with it, on every
//! server that reads the file.

mod gate;
pub mod login;

pub use gate::{Gate, Guard, Principal, guard, host_is_ours};
