//! Speaking to the operator. Standard error belongs to the command and may be
//! full, closed or a broken pipe; what cannot be said is left unsaid.

use std::io::{self, Write};

/// Says one line.
pub fn say(line: impl std::fmt::Display) {
    // Errors name programs and what servers said.
    let line = sketch_model::printable_lines(&line.to_string());
    // In one write, so that lines of the command do not come between.
    let _ = io::stderr().write_all(format!("failsketch-agent: {line}\n").as_bytes());
}
