//! Races between processes: on files, pipes, signals and exit statuses. Pure.
//!
//! An empty room: the issue on processes fills it. Its door:
//!
//! - the table of system calls, and which objects each one reads and writes;
//! - `analyse(call_log) -> Vec<ProcessRace>`.
//!
//! `process-lab`, which runs trees of processes in a sandbox, will be a room of
//! its own: this one waits for nothing and opens nothing.
