//! The memory shared with the supervised process: made before it starts, read
//! after it is dead.

mod crash;
mod live;
mod reader;
mod region;
mod threads;
mod words;

pub use crash::CrashCapture;
pub use live::LiveRegion;
pub use reader::{Remains, WatchState, WatchStatus};
pub use region::{RegionFile, RegionSettings};
pub use threads::EndedThreads;
