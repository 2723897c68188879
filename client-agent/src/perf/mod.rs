//! Watchpoint hits: received from the kernel's rings, parsed, and tied to slots.

pub mod collector;
pub mod probe;
pub mod ring;
pub mod sys;
