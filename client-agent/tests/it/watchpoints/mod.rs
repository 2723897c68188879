//! Real hardware watchpoints in real programs.

mod oracle;
mod tiers;
mod watch_ends;
mod watch_release;
mod watch_values;
