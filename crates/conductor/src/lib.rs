//! Runs one program one thread at a time, by a schedule.
//!
//! An empty room: the issue on the conductor fills it. Its door:
//!
//! - `conduct(launch, strategy) -> Trial`: a `Strategy` says at each anchor which
//!   thread goes on; a schedule is one, and following the choices of an earlier trial
//!   is another, which replays it.
//!
//! This is the host's half; the half inside the process will lie beside the other
//! code that runs there.
