//! A tracer in software: it knows the true path of a real program, writes the
//! trace that a processor would have written, and keeps the path to compare.
#![allow(dead_code, reason = "each test program uses its part")]

pub mod children;
pub mod code;
pub mod perf_file;
pub mod programs;
pub mod ptrace;
pub mod truth;
pub mod walk;
pub mod writer;
