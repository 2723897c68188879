//! A machine with Intel PT, for tests: answers as told, and writes down what it
//! was asked.

use super::kernel::{Event, Kernel, RawTrace};
use perf_event_open_sys::bindings::perf_event_attr;
use sketch_model::PerfClock;
use std::{
    ffi::CStr,
    io,
    sync::{Arc, Mutex},
};

/// What the machine refuses, and what its buffers hold.
#[derive(Clone, Default)]
pub struct Behaviour {
    pub open: Option<i32>,
    /// Build-ids in mapping records are not known.
    pub old: bool,
    /// Larger traces are refused.
    pub most_trace_pages: usize,
    pub filter: Option<i32>,
    pub disable: Option<i32>,
    pub clock: Option<PerfClock>,
    /// Handed out at the first look.
    pub ring: Vec<u8>,
    pub trace: RawTrace,
}

#[derive(Clone, Default)]
pub struct FakeKernel {
    pub behaviour: Behaviour,
    pub asked: Arc<Mutex<Vec<String>>>,
}

impl FakeKernel {
    pub fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }
}

struct FakeEvent {
    cpu: u32,
    kernel: FakeKernel,
    ring: Mutex<Vec<u8>>,
}

fn refused(errno: Option<i32>) -> io::Result<()> {
    errno.map_or(Ok(()), |errno| Err(io::Error::from_raw_os_error(errno)))
}

impl Kernel for FakeKernel {
    fn open(&self, attr: &perf_event_attr, cpu: u32) -> io::Result<Box<dyn Event>> {
        let said = format!(
            "open type {} config {:#x} cpu {cpu}",
            attr.type_, attr.config
        );
        self.asked.lock().unwrap().push(said);
        refused(self.behaviour.open)?;
        if self.behaviour.old && attr.build_id() == 1 {
            refused(Some(libc::EINVAL))?;
        }
        Ok(Box::new(FakeEvent {
            cpu,
            kernel: self.clone(),
            ring: Mutex::new(self.behaviour.ring.clone()),
        }))
    }
}

impl FakeEvent {
    fn was(&self, what: &str) {
        let said = format!("{what} cpu {}", self.cpu);
        self.kernel.asked.lock().unwrap().push(said);
    }
}

impl Event for FakeEvent {
    fn map_ring(&mut self, pages: usize) -> io::Result<()> {
        self.was(&format!("ring {pages}"));
        Ok(())
    }

    fn map_trace(&mut self, pages: usize) -> io::Result<()> {
        self.was(&format!("trace {pages}"));
        let fits = pages <= self.kernel.behaviour.most_trace_pages;
        refused((!fits).then_some(libc::EPERM))
    }

    fn set_filter(&self, filter: &CStr) -> io::Result<()> {
        self.was(&filter.to_string_lossy());
        refused(self.kernel.behaviour.filter)
    }

    fn disable(&self) -> io::Result<()> {
        self.was("disable");
        refused(self.kernel.behaviour.disable)
    }

    fn drain(&self, into: &mut Vec<u8>) {
        into.append(&mut self.ring.lock().unwrap());
    }

    fn clock(&self) -> Option<PerfClock> {
        self.kernel.behaviour.clock
    }

    fn trace(&self) -> RawTrace {
        self.was("read");
        self.kernel.behaviour.trace.clone()
    }
}

impl Drop for FakeEvent {
    fn drop(&mut self) {
        self.was("close");
    }
}
