//! Work that takes long and runs beside the engine.

pub(crate) mod prepare_iteration;
