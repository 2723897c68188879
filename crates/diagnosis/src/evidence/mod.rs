//! What one run shows: its record decoded into events, ordered only by what proves an order.

pub mod address_sources;
pub mod attribution;
pub(crate) mod call_values;
pub mod decoded_run;
pub mod executed;
pub mod freed;
pub mod hits;
pub mod hot_accesses;
pub mod instruction;
pub mod intel_pt;
pub mod order;
pub(crate) mod redaction;
pub mod roles;
pub mod shared_location;
pub mod trace;
pub mod value_evidence;
