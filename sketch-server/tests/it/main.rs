//! The tests of this crate from outside, in one binary: linking is what costs.

mod access;
mod blobs;
mod browser;
mod hostile;
mod http;
mod openapi;
mod operation;
mod plans;
mod refusals;
mod service_support;
mod storage;
mod storage_support;
mod tls;
