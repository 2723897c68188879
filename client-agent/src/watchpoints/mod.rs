//! Watchpoint hits: received through the kernel's rings or by signals, and tied to slots.

pub mod collector;
pub mod probe;
pub mod receiver;
pub mod rings;
pub mod signals;
pub mod sys;
