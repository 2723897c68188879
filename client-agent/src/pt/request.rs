//! What a run asks of the recorder: its own code, on the machine that it is on.

use super::{
    capability::{PtRefusal, PtUnit},
    kernel::Linux,
    recorder::Tracing,
    windows::Window,
};
use crate::modules::MainModule;
use std::{
    os::fd::{AsRawFd, BorrowedFd},
    path::PathBuf,
};

/// A trace that is wanted.
pub struct TraceRequest<'a> {
    unit: &'a PtUnit,
    windows: Vec<Window>,
}

impl<'a> TraceRequest<'a> {
    /// The program's own code; `file` is the tracked build's, which has no path.
    pub fn of_own_code(
        unit: &'a PtUnit,
        main: &MainModule,
        file: Option<BorrowedFd<'_>>,
    ) -> TraceRequest<'a> {
        // The kernel looks the path up when it is asked, as the agent.
        let path = match file {
            Some(file) => PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd())),
            None => PathBuf::from(&main.path),
        };
        TraceRequest {
            unit,
            windows: Window::of_code(&path, &main.facts.code),
        }
    }

    pub fn start(self) -> Result<Tracing, PtRefusal> {
        Tracing::start(self.unit, &Linux, &self.windows)
    }
}
