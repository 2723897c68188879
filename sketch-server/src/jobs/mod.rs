//! Work for a campaign that takes long and runs beside the engine.
//!
//! One kind so far. A new kind is a file here; `campaigns/engine.rs` starts it and
//! `campaigns/run_filing/orders.rs` hears of its end. Periodic work is not here: its
//! loops are started in `serve.rs`.

pub(crate) mod prepare_iteration;
