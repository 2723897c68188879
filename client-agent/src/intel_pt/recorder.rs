//! A run's trace from opening to record.
//!
//! A thread of its own empties the rings while the command runs, else a long run
//! would lose the records of its last moments. It looks every 20 ms and does
//! nothing else until it is told to finish.

use super::{
    capability::{Machine, PtRefusal, PtUnit},
    kept::{Store, in_order},
    kernel::{Event, Kernel},
    request::{Window, attributes, filter},
};
use crate::process::sys::errno;
use sketch_model::{Gap, PtBuffer, PtRecord, SidebandEvent, SidebandKind};
use std::{
    sync::mpsc::{self, RecvTimeoutError},
    thread,
    time::Duration,
};

/// Records of one processor between two looks: some 1600 switches.
const RING_PAGES: usize = 32;
/// The trace of one processor: 1 MiB at most, 64 KiB at least, and not more for
/// the whole machine than a record should weigh.
const MOST_TRACE_PAGES: usize = 256;
const LEAST_TRACE_PAGES: usize = 16;
const ALL_TRACE_PAGES: usize = 2048;
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Whether Intel PT can be used here: opens an event and its buffers.
pub fn probe(machine: &Machine, kernel: &dyn Kernel) -> Result<PtUnit, PtRefusal> {
    let unit = PtUnit::detect(machine)?;
    let mut event = open(&unit, kernel, unit.cpus[0])?;
    map(event.as_mut(), LEAST_TRACE_PAGES)?;
    Ok(unit)
}

/// What a run left.
#[derive(Debug)]
pub struct Traced {
    pub record: PtRecord,
    /// What is missing.
    pub gaps: Vec<Gap>,
}

/// Tracing of what the calling thread executes next.
pub struct Tracing {
    /// Dropped to stop.
    stop: Option<mpsc::Sender<()>>,
    reader: Option<thread::JoinHandle<Traced>>,
}

impl Tracing {
    /// Prepares tracing of the next program that the calling thread starts. Only
    /// `windows` are traced, if there are any and the kernel can.
    pub fn start(
        unit: &PtUnit,
        kernel: &dyn Kernel,
        windows: &[Window],
    ) -> Result<Tracing, PtRefusal> {
        let mut gaps = Vec::new();
        let mut processors = open_all(unit, kernel)?;
        if !windows.is_empty()
            && let Err(because) = limit(&processors, windows, unit.windows)
        {
            gaps.push(Gap::TraceNotLimited { because });
            // Some may be limited and some not. The kernel allows one trace of a
            // thread at a time, so these must go first.
            drop(processors);
            processors = open_all(unit, kernel)?;
        }
        let record = PtRecord {
            cpu: unit.model,
            frequency: Some(unit.frequency),
            clock: processors.iter().find_map(|it| it.event.clock()),
            ..PtRecord::default()
        };
        let (stop, stopped) = mpsc::channel::<()>();
        let reader = thread::Builder::new()
            .name("intel-pt".into())
            .spawn(move || {
                let mut store = Store::default();
                while stopped.recv_timeout(LOOK_EVERY) == Err(RecvTimeoutError::Timeout) {
                    drain(&processors, &mut store);
                }
                collect(&processors, store, record, gaps)
            })
            .map_err(|error| PtRefusal::call("starting a thread", error))?;
        Ok(Tracing {
            stop: Some(stop),
            reader: Some(reader),
        })
    }

    /// Stops tracing and takes what there is.
    pub fn finish(mut self) -> Result<Traced, Gap> {
        self.stop = None;
        let reader = self.reader.take().map(thread::JoinHandle::join);
        match reader {
            Some(Ok(traced)) => Ok(traced),
            Some(Err(_)) | None => Err(Gap::TraceReaderFailed),
        }
    }
}

impl Drop for Tracing {
    fn drop(&mut self) {
        self.stop = None;
        if let Some(reader) = self.reader.take() {
            // Nobody wants the trace; the events must be gone before others open.
            let _ = reader.join();
        }
    }
}

struct Processor {
    cpu: u32,
    event: Box<dyn Event>,
}

fn open_all(unit: &PtUnit, kernel: &dyn Kernel) -> Result<Vec<Processor>, PtRefusal> {
    let share = ALL_TRACE_PAGES / unit.cpus.len().max(1);
    // Down to a power of two.
    let share = (share + 1).next_power_of_two() / 2;
    let mut pages = share.clamp(LEAST_TRACE_PAGES, MOST_TRACE_PAGES);
    let mut processors = Vec::new();
    for cpu in &unit.cpus {
        let mut event = open(unit, kernel, *cpu)?;
        pages = map(event.as_mut(), pages)?;
        processors.push(Processor { cpu: *cpu, event });
    }
    Ok(processors)
}

fn open(unit: &PtUnit, kernel: &dyn Kernel, cpu: u32) -> Result<Box<dyn Event>, PtRefusal> {
    let opened = match kernel.open(&attributes(unit, true), cpu) {
        // An older kernel: files are then found by their paths.
        Err(error) if matches!(error.raw_os_error(), Some(libc::EINVAL | libc::E2BIG)) => {
            kernel.open(&attributes(unit, false), cpu)
        }
        opened => opened,
    };
    opened.map_err(|error| PtRefusal::call("perf_event_open", error))
}

/// Maps the buffers, the trace's as large as is allowed; the answer is its size.
fn map(event: &mut dyn Event, mut pages: usize) -> Result<usize, PtRefusal> {
    let refused = |error| PtRefusal::call("mmap", error);
    event.map_ring(RING_PAGES).map_err(refused)?;
    loop {
        match event.map_trace(pages) {
            Ok(()) => return Ok(pages),
            Err(error) => {
                let too_large = matches!(error.raw_os_error(), Some(libc::EPERM | libc::ENOMEM));
                if !too_large || pages <= LEAST_TRACE_PAGES {
                    return Err(refused(error));
                }
                pages /= 2;
            }
        }
    }
}

/// Limits the trace, or says why not.
fn limit(processors: &[Processor], windows: &[Window], most: usize) -> Result<(), String> {
    let filter = filter(windows, most)?;
    processors
        .iter()
        .try_for_each(|it| it.event.set_filter(&filter))
        .map_err(|reason| format!("ioctl(PERF_EVENT_IOC_SET_FILTER) was refused ({reason})"))
}

fn drain(processors: &[Processor], store: &mut Store) {
    let mut ring = Vec::new();
    for processor in processors {
        ring.clear();
        processor.event.drain(&mut ring);
        store.add(&ring);
    }
}

fn collect(
    processors: &[Processor],
    mut store: Store,
    mut record: PtRecord,
    mut gaps: Vec<Gap>,
) -> Traced {
    for processor in processors {
        if let Err(error) = processor.event.disable() {
            gaps.push(Gap::TraceReadWhileWritten {
                cpu: processor.cpu,
                errno: errno(&error),
            });
        }
    }
    drain(processors, &mut store);
    for Processor { cpu, event } in processors {
        let snapshot = in_order(event.trace());
        if snapshot.overwritten {
            // The kernel does not write this record in snapshot mode by itself.
            store.keep(SidebandEvent {
                time_ns: None,
                cpu: Some(*cpu),
                pid: -1,
                tid: -1,
                kind: SidebandKind::Aux {
                    offset: 0,
                    size: snapshot.bytes.len() as u64,
                    truncated: false,
                    overwritten: true,
                    partial: false,
                },
            });
        }
        if !snapshot.bytes.is_empty() {
            record.buffers.push(PtBuffer {
                cpu: Some(*cpu),
                tid: None,
                bytes: snapshot.bytes,
            });
        }
    }
    let (sideband, missing) = store.finish();
    record.sideband = sideband;
    gaps.extend(missing);
    Traced { record, gaps }
}

#[cfg(test)]
#[path = "recorder_tests.rs"]
mod tests;
