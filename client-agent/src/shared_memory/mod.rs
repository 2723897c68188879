//! The memory shared with the supervised process: made before it starts, read
//! after it is dead.

mod crash;
mod reader;
mod region;
mod words;

pub use crash::CrashCapture;
pub use reader::{Remains, WatchState, WatchStatus};
pub use region::{RegionFile, RegionSettings};
