//! Everything that speaks HTTP: listening, routes, pages, exports, refusals.

pub(crate) mod admin;
pub(crate) mod agents;
pub(crate) mod campaigns;
pub(crate) mod events;
pub(crate) mod exports;
mod extract;
pub(crate) mod health;
pub(crate) mod limits;
pub(crate) mod listen;
pub(crate) mod metrics;
pub(crate) mod openapi;
pub(crate) mod pages;
pub(crate) mod record_check;
pub(crate) mod refusal;
pub(crate) mod routes;
pub(crate) mod run_view;
pub(crate) mod steering;
pub(crate) mod tls;
pub(crate) mod upload;
