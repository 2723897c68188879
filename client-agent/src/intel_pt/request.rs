//! What a run asks the kernel for: an event with the trace, the records without which a trace
//! is nobody's, and the windows to which it is limited.
//!
//! Windows are stretches of a file's code, in the language of the kernel's address filters
//! (`perf_event_open(2)`, `PERF_EVENT_IOC_SET_FILTER`). The kernel finds out where the file is
//! mapped. A trace of the program's own code alone reaches further back in the same
//! buffer than one that holds the C library's loops as well.

use super::capability::{Machine, PtRefusal, PtUnit};
use super::kernel::{Kernel, Linux};
use super::recorder::{self, Tracing};
use crate::process::modules::MainModule;
use formats::{elf::CodeSegment, perf_records::SampleId};
use perf_event_open_sys::bindings::perf_event_attr;
use std::{
    ffi::CString,
    fmt::Write,
    os::fd::{AsRawFd, BorrowedFd},
    path::{Path, PathBuf},
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

/// What each record says of itself.
pub const LAYOUT: SampleId = SampleId(SampleId::TID | SampleId::TIME | SampleId::CPU);

/// The attributes for one processor's event. Kernels before 5.12 know no
/// build-ids in mapping records, and refuse to be asked for them.
pub fn attributes(unit: &PtUnit, build_ids: bool) -> perf_event_attr {
    let mut attr = perf_event_attr {
        type_: unit.event_type,
        size: size_of::<perf_event_attr>() as u32,
        config: unit.config,
        sample_type: LAYOUT.0,
        ..Default::default()
    };
    attr.__bindgen_anon_1.sample_period = 1;
    // Off in the agent, inherited by the command, on from its exec.
    attr.set_disabled(1);
    attr.set_inherit(1);
    attr.set_enable_on_exec(1);
    attr.set_exclude_kernel(1);
    attr.set_exclude_hv(1);
    attr.set_mmap(1);
    attr.set_mmap2(1);
    attr.set_build_id(build_ids.into());
    attr.set_comm(1);
    attr.set_comm_exec(1);
    attr.set_task(1);
    attr.set_context_switch(1);
    attr.set_sample_id_all(1);
    attr
}

/// A stretch of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Window {
    pub path: String,
    pub offset: u64,
    pub length: u64,
}

impl Window {
    /// The code of a file.
    pub fn of_code(path: &Path, code: &[CodeSegment]) -> Vec<Window> {
        let path = path.to_string_lossy();
        let window = |segment: &CodeSegment| Window {
            path: path.clone().into_owned(),
            offset: segment.file_offset,
            length: segment.file_size,
        };
        code.iter().map(window).collect()
    }
}

/// The filter for these windows, or why everything must be traced.
pub fn filter(windows: &[Window], most: usize) -> Result<CString, String> {
    if windows.len() > most {
        return Err(format!(
            "the processor can trace {most} windows, and the program's code has {}",
            windows.len()
        ));
    }
    let mut text = String::new();
    for window in windows {
        let Window {
            path,
            offset,
            length,
        } = window;
        // The kernel splits at these, and knows no quotes.
        if !path.starts_with('/') || path.contains([' ', ',', '\n']) {
            return Err(format!("the path {path} cannot be expressed in a filter"));
        }
        if !text.is_empty() {
            text.push(' ');
        }
        // Writing to a string cannot fail.
        let _ = write!(text, "filter {offset:#x}/{length:#x}@{path}");
    }
    CString::new(text).map_err(|_| "a path has a null byte".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window(path: &str, offset: u64) -> Window {
        Window {
            path: path.into(),
            offset,
            length: 0x234,
        }
    }

    #[test]
    fn windows_are_written_as_the_kernel_reads_them() {
        let code = CodeSegment {
            file_offset: 0x1000,
            file_size: 0x234,
            address: 0x40_1000,
        };
        let windows = Window::of_code(Path::new("/usr/bin/a"), &[code]);
        assert_eq!(windows, [window("/usr/bin/a", 0x1000)]);
        let two = [window("/usr/bin/a", 0x1000), window("/b", 0)];
        assert_eq!(
            filter(&two, 2).unwrap().to_str(),
            Ok("filter 0x1000/0x234@/usr/bin/a filter 0x0/0x234@/b")
        );
    }

    #[test]
    fn what_the_kernel_could_not_read_is_refused() {
        let refusal = |path: &str| filter(&[window(path, 0)], 1).unwrap_err();
        for path in ["/a b", "/a,b", "a", "/a\nb"] {
            let expected = format!("the path {path} cannot be expressed in a filter");
            assert_eq!(refusal(path), expected);
        }
        assert_eq!(refusal("/a\0b"), "a path has a null byte");
        assert_eq!(
            filter(&[window("/a", 0)], 0).unwrap_err(),
            "the processor can trace 0 windows, and the program's code has 1"
        );
    }
}
