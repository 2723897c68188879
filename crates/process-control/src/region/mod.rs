//! The memory shared with the supervised process: made before it starts, read
//! after it is dead.

mod crash;
mod file;
mod lifetimes;
mod live;
mod reader;
mod threads;
mod words;

pub use crash::CrashCapture;
pub use file::{RegionFile, RegionSettings};
pub use lifetimes::FreedRemains;
pub use live::LiveRegion;
pub use reader::{Remains, WatchState, WatchStatus};
pub use threads::EndedThreads;
