//! A command under the agent ends, and is treated, as it would be without it.

mod endings;
mod extremes;
mod freed_memory;
mod hangs;
mod job_control;
mod own_handlers;
mod rough_ends;
mod scribble;
mod signals;
mod transparency;
