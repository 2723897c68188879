//! The tests of this crate from outside, in one binary: linking is what costs.

mod apart;
mod campaign;
mod classes;
mod decode;
mod executed;
mod instruction;
mod lifetime;
mod passed;
mod patterns;
mod pbzip2;
mod population;
mod quality;
mod stop_rule;
mod stored_campaigns;
mod support;
mod sync_order;
mod traced;
