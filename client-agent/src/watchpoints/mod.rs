//! Watchpoint hits: received through the kernel's rings, and tied to slots.

pub mod collector;
pub mod probe;
pub mod rings;
pub mod sys;
