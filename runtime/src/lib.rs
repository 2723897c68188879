//! The few kilobytes inside the process: crash capture, recorder, watchpoints.
