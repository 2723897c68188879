//! The base of in-process code, tried in an ordinary process.

mod next_symbol;
mod text;
