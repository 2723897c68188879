//! Builders and fixtures that tests of several crates share.
//!
//! Only tests and benchmarks may depend on this crate; the tidy test says so.

#[cfg(feature = "browser")]
pub mod browser;
#[cfg(feature = "intel-pt")]
pub mod intel_pt;
#[cfg(feature = "postgres")]
pub mod postgres;
#[cfg(feature = "records")]
pub mod records;
