//! Runs of real commands whose records carry a trace. The events are the
//! kernel's own; only the buffer of the trace, which this machine lacks, is made.

use super::{
    PtSource,
    capability::{PtUnit, tests::skylake},
    fake::{Behaviour, FakeKernel},
    kernel::{Event, Kernel, Linux, RawTrace},
};
use crate::governor::run_governor::Costs;
use crate::process::inherited::Inherited;
use crate::process::modules::ModuleCache;
use crate::process::supervise::Ending;
use crate::process::{environment, sys};
use crate::run::program::{Program, ProgramKind};
use crate::run::{Recorder, Supervisor};
use perf_event_open_sys::bindings::perf_event_attr;
use sketch_model::{
    AgentId, Capabilities, FailureKind, Gap, Outcome, PerfClock, RunRecord, SidebandKind,
};
use std::{
    cell::LazyCell,
    ffi::{CStr, CString, OsStr},
    io,
};

/// perf's software event that never happens: all records, no trace.
const SOFTWARE: u32 = 1;
const DUMMY: u64 = 9;

struct WithMadeTrace;
struct MadeTrace(Box<dyn Event>);

impl Kernel for WithMadeTrace {
    fn open(&self, attr: &perf_event_attr, cpu: u32) -> io::Result<Box<dyn Event>> {
        Ok(Box::new(MadeTrace(Linux.open(attr, cpu)?)))
    }
}

impl Event for MadeTrace {
    fn map_ring(&mut self, pages: usize) -> io::Result<()> {
        self.0.map_ring(pages)
    }
    fn map_trace(&mut self, _: usize) -> io::Result<()> {
        Ok(())
    }
    fn set_filter(&self, filter: &CStr) -> io::Result<()> {
        self.0.set_filter(filter)
    }
    fn disable(&self) -> io::Result<()> {
        self.0.disable()
    }
    fn drain(&self, into: &mut Vec<u8>) {
        self.0.drain(into);
    }
    fn clock(&self) -> Option<PerfClock> {
        self.0.clock()
    }
    fn trace(&self) -> RawTrace {
        RawTrace {
            head: 2,
            bytes: vec![0x02, 0x82, 0, 0],
        }
    }
}

/// Runs `/bin/sleep` for a moment, judged by `check`.
fn record(kernel: Box<dyn Kernel>, check: &str) -> RunRecord {
    let program = Program::find(OsStr::new("/bin/sleep"), None).unwrap();
    let ProgramKind::Known(known) = &program.kind else {
        panic!("{:?}", program.kind);
    };
    let arguments = ["sleep", "0.001"].map(|it| CString::new(it).unwrap());
    let inherited = Inherited::take().unwrap();
    let supervisor = Supervisor::new(&program, &arguments, environment::own(), inherited, None);
    let (_kept, files) = skylake();
    let unit = PtUnit {
        event_type: SOFTWARE,
        config: DUMMY,
        cpus: (0..sys::processors()).collect(),
        ..PtUnit::detect(&files).unwrap()
    };
    let mut recorder = Recorder {
        agent: AgentId("here".into()),
        capabilities: Capabilities::intel_pt(),
        pt: Some(PtSource { unit, kernel }),
        preload: Err("none is needed".into()),
        failing_exits: Vec::new(),
        hang: None,
        check: Some(check.into()),
        budget: None,
        trap_budget: 4096,
        watch_way: crate::policy::WatchWay::default(),
        costs: LazyCell::new(|| Costs::measure(false)),
        modules: ModuleCache::default(),
    };
    let mut kept = Vec::new();
    let run = supervisor
        .run_recorded(known, None, &mut recorder, Vec::new(), &mut |record| {
            kept.push(record);
        })
        .unwrap();
    assert_eq!(run.ended.ending, Ending::Exit(0));
    assert_eq!(kept.len(), 1);
    kept.remove(0)
}

#[test]
fn a_record_carries_the_trace_of_the_command_and_not_of_its_checker() {
    let record = record(Box::new(WithMadeTrace), "exit 3");
    let Outcome::Failure(report) = &record.outcome else {
        panic!("the checker says that it failed");
    };
    assert_eq!(report.kind, FailureKind::Check(3));
    let pt = record.pt.expect("it has a trace");
    assert_eq!(pt.buffers.len(), sys::processors() as usize);
    assert!(pt.buffers.iter().all(|it| it.bytes == [0x02, 0x82]));
    let names: Vec<_> = pt
        .sideband
        .iter()
        .filter_map(|event| match &event.kind {
            SidebandKind::Comm { name, exec: true } => Some(name.as_str()),
            _ => None,
        })
        .collect();
    assert_eq!(names, ["sleep"]);
    let own = |kind: &SidebandKind| match kind {
        SidebandKind::Mapped(mapped) => mapped.build_id.as_ref() == Some(&record.build),
        _ => false,
    };
    assert!(pt.sideband.iter().any(|event| own(&event.kind)));
    // An event without a trace unit has no windows.
    let limited = |gap: &Gap| !matches!(gap, Gap::TraceNotLimited { .. });
    assert!(!record.gaps.iter().all(limited), "{:?}", record.gaps);
}

#[test]
fn a_run_whose_trace_is_refused_says_why_and_goes_on() {
    let kernel = FakeKernel {
        behaviour: Behaviour {
            open: Some(libc::EBUSY),
            ..Behaviour::default()
        },
        ..FakeKernel::default()
    };
    let record = record(Box::new(kernel), "exit 0");
    assert_eq!((record.outcome, record.pt), (Outcome::Success, None));
    let expected = "perf_event_open was refused for Intel PT (Device or resource busy (os error \
                    16)); another tracer uses it: end that one";
    let because = expected.to_owned();
    let refused = Gap::TraceRefused { because };
    assert!(record.gaps.contains(&refused), "{:?}", record.gaps);
}
