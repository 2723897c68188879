//! The program as plain data, without LLVM: functions, statements, names, classes, and what is known of library functions.

pub(crate) mod classes;
pub(crate) mod error;
pub(crate) mod library;
pub(crate) mod names;
pub(crate) mod program;
