//! What a run asks of the recorder: its own code, on the machine that it is on.

use super::capability::{Machine, PtRefusal, PtUnit};
use super::kernel::{Kernel, Linux};
use super::recorder::{self, Tracing};
use super::windows::Window;
use crate::process::modules::MainModule;
use std::{
    os::fd::{AsRawFd, BorrowedFd},
    path::PathBuf,
};

/// A trace unit, and the kernel to ask for it.
pub struct PtSource {
    pub unit: PtUnit,
    pub kernel: Box<dyn Kernel>,
}

impl PtSource {
    /// This machine's, if an event can be opened.
    pub fn of_this_machine() -> Result<PtSource, PtRefusal> {
        Ok(PtSource {
            unit: recorder::probe(&Machine::default(), &Linux)?,
            kernel: Box::new(Linux),
        })
    }
}

/// A trace that is wanted.
pub struct TraceRequest<'a> {
    source: &'a PtSource,
    windows: Vec<Window>,
}

impl<'a> TraceRequest<'a> {
    /// The program's own code; `file` is the tracked build's, which has no path.
    pub fn of_own_code(
        source: &'a PtSource,
        main: &MainModule,
        file: Option<BorrowedFd<'_>>,
    ) -> TraceRequest<'a> {
        // The kernel looks the path up when it is asked, as the agent.
        let path = match file {
            Some(file) => PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd())),
            None => PathBuf::from(&main.path),
        };
        TraceRequest {
            source,
            windows: Window::of_code(&path, &main.facts.code),
        }
    }

    pub fn start(self) -> Result<Tracing, PtRefusal> {
        Tracing::start(
            &self.source.unit,
            self.source.kernel.as_ref(),
            &self.windows,
        )
    }
}
