//! The recorder on a made machine with Intel PT, and, but for the trace itself,
//! on the kernel that runs.

use super::*;
use crate::intel_pt::capability::tests::skylake;
use crate::intel_pt::fake::{Behaviour, FakeKernel};
use crate::intel_pt::kernel::{Linux, RawTrace};
use sketch_model::PerfClock;
use std::process::Command;

const CLOCK: PerfClock = PerfClock {
    shift: 31,
    mult: 1_076_264_588,
    zero: 18_433_473_881_008_870_804,
};

/// Bytes of a trace that came round: the oldest is in the middle.
fn round() -> RawTrace {
    RawTrace {
        head: 3,
        bytes: vec![6, 7, 8, 4, 5],
    }
}

fn machine(behaviour: Behaviour) -> FakeKernel {
    FakeKernel {
        behaviour: Behaviour {
            most_trace_pages: match behaviour.most_trace_pages {
                0 => usize::MAX,
                most => most,
            },
            ..behaviour
        },
        asked: Default::default(),
    }
}

fn unit() -> PtUnit {
    let (_kept, files) = skylake();
    PtUnit::detect(&files).unwrap()
}

/// An event of a thread that is switched in: sample id 7/8, time 99, processor 3.
fn switch() -> Vec<u8> {
    let mut bytes = vec![14, 0, 0, 0, 0, 0, 32, 0];
    for word in [7u64 | 8 << 32, 99, 3] {
        bytes.extend(word.to_le_bytes());
    }
    bytes
}

fn windows() -> Vec<Window> {
    vec![Window {
        path: "/bin/a".into(),
        offset: 0x1000,
        length: 0x200,
    }]
}

#[test]
fn a_run_is_traced_on_every_processor_and_read_after_it_was_stopped() {
    let kernel = machine(Behaviour {
        clock: Some(CLOCK),
        ring: switch(),
        trace: round(),
        ..Behaviour::default()
    });
    let unit = unit();
    let traced = Tracing::start(&unit, &kernel, &windows())
        .unwrap()
        .finish()
        .unwrap();
    assert_eq!(traced.gaps, []);
    let record = traced.record;
    assert_eq!((record.cpu, record.clock), (unit.model, Some(CLOCK)));
    assert_eq!(record.frequency, Some(unit.frequency));
    let buffer = |cpu| PtBuffer {
        cpu: Some(cpu),
        tid: None,
        bytes: vec![4, 5, 6, 7, 8],
    };
    assert_eq!(record.buffers, [buffer(0), buffer(1), buffer(3)]);
    // What was overwritten is said first, for it was before all.
    let kinds: Vec<_> = record.sideband.iter().map(|it| &it.kind).collect();
    let lost = |kind: &SidebandKind| {
        matches!(
            kind,
            SidebandKind::Aux {
                overwritten: true,
                ..
            }
        )
    };
    assert!(kinds[..3].iter().all(|kind| lost(kind)), "{kinds:?}");
    assert_eq!(kinds[3..], [&SidebandKind::SwitchIn; 3]);
    let of_each = |what: &[&str]| -> Vec<String> {
        let cpus = [0, 1, 3].into_iter();
        cpus.flat_map(|cpu| what.iter().map(move |it| format!("{it} cpu {cpu}")))
            .collect()
    };
    let opened = format!("open type 8 config {:#x}", unit.config);
    let mut expected = of_each(&[&opened, "ring 32", "trace 256"]);
    expected.extend(of_each(&["filter 0x1000/0x200@/bin/a"]));
    expected.extend(of_each(&["disable"]));
    expected.extend(of_each(&["read"]));
    expected.extend(of_each(&["close"]));
    assert_eq!(kernel.asked(), expected);
}

#[test]
fn where_windows_are_refused_everything_is_traced_and_the_record_says_so() {
    let kernel = machine(Behaviour {
        filter: Some(libc::EOPNOTSUPP),
        ..Behaviour::default()
    });
    let tracing = Tracing::start(&unit(), &kernel, &windows()).unwrap();
    let traced = tracing.finish().unwrap();
    assert_eq!(
        traced.gaps,
        [Gap::TraceNotLimited {
            because: "ioctl(PERF_EVENT_IOC_SET_FILTER) was refused (Operation not supported \
                      (os error 95))"
                .to_owned()
        }]
    );
    // A thread has one trace at a time: the first three were closed before.
    let asked = kernel.asked();
    let closed = asked.iter().position(|it| it.starts_with("close")).unwrap();
    let opened = asked.iter().rposition(|it| it.starts_with("open")).unwrap();
    assert!(closed < opened, "{asked:?}");
    assert_eq!(traced.record.buffers, []);
}

#[test]
fn a_smaller_trace_is_taken_where_a_large_one_is_refused() {
    let kernel = machine(Behaviour {
        most_trace_pages: 64,
        old: true,
        ..Behaviour::default()
    });
    drop(Tracing::start(&unit(), &kernel, &[]).unwrap());
    let asked = kernel.asked();
    let sizes: Vec<_> = asked.iter().filter(|it| it.starts_with("trace")).collect();
    // Other processors do not try again what the first one was refused.
    let expected = ["256 cpu 0", "128 cpu 0", "64 cpu 0", "64 cpu 1", "64 cpu 3"];
    assert_eq!(sizes, expected.map(|it| format!("trace {it}")).each_ref());
    // Dropped without a word: closed all the same.
    assert!(asked.last().unwrap().starts_with("close"), "{asked:?}");
}

#[test]
fn refusals_name_the_call_and_the_remedy() {
    let (_kept, files) = skylake();
    let refusal = |behaviour| probe(&files, &machine(behaviour)).unwrap_err().to_string();
    let open = |errno| Behaviour {
        open: Some(errno),
        ..Behaviour::default()
    };
    assert_eq!(
        refusal(open(libc::EBUSY)),
        "perf_event_open was refused for Intel PT (Device or resource busy (os error 16)); \
         another tracer uses it: end that one"
    );
    assert_eq!(
        refusal(open(libc::EACCES)),
        "perf_event_open was refused for Intel PT (Permission denied (os error 13)); allow \
         perf_event_open in the container's seccomp profile and set kernel.perf_event_paranoid \
         to 2 or less"
    );
    let small = Behaviour {
        most_trace_pages: 8,
        ..Behaviour::default()
    };
    assert_eq!(
        refusal(small),
        "mmap was refused for Intel PT (Operation not permitted (os error 1)); raise \
         kernel.perf_event_mlock_kb or the limit of locked memory"
    );
    assert!(probe(&files, &machine(Behaviour::default())).is_ok());
}

/// Neither a machine of ours nor most clouds have it: this is what they say.
#[test]
fn this_machine_says_what_it_lacks() {
    let files = Machine::default();
    let path = files.sys.join("bus/event_source/devices/intel_pt");
    match probe(&files, &Linux) {
        Ok(unit) => assert!(path.exists() && unit.event_type > 0),
        Err(refusal) if path.exists() => {
            assert!(matches!(refusal, PtRefusal::Call { .. }), "{refusal}");
        }
        Err(refusal) => assert_eq!(
            refusal.to_string(),
            "/sys/bus/event_source/devices/intel_pt does not exist; control flow is recorded \
             inline (an Intel processor of 2015 or later, not hidden by a hypervisor, would have \
             it)"
        ),
    }
}

/// The real calls, with an event that has everything but a trace: it is off in
/// this thread, and on in what this thread starts.
#[test]
fn the_real_kernel_tells_of_a_child_from_its_exec_to_its_end() {
    const SOFTWARE: u32 = 1;
    const DUMMY: u64 = 9;
    let unit = PtUnit {
        event_type: SOFTWARE,
        config: DUMMY,
        cpus: (0..crate::process::sys::processors()).collect(),
        ..unit()
    };
    let mut processors = Vec::new();
    for cpu in &unit.cpus {
        let mut event = open(&unit, &Linux, *cpu).unwrap();
        event.map_ring(RING_PAGES).unwrap();
        // Only trace units have this buffer.
        assert!(event.map_trace(LEAST_TRACE_PAGES).is_err());
        processors.push(Processor { cpu: *cpu, event });
    }
    let mut child = Command::new("/bin/sleep").arg("0.001").spawn().unwrap();
    let pid = child.id() as i32;
    assert!(child.wait().unwrap().success());
    let clock = processors[0].event.clock();
    let traced = collect(&processors, Store::default(), PtRecord::default(), vec![]);
    assert_eq!(traced.gaps, []);
    assert_eq!(traced.record.buffers, []);
    let events = &traced.record.sideband;
    assert!(events.iter().all(|it| it.pid == pid), "{events:?}");
    assert!(matches!(
        &events[0].kind,
        SidebandKind::Comm { name, exec: true } if name == "sleep"
    ));
    let mapped = events.iter().filter_map(|event| match &event.kind {
        SidebandKind::Mapped(mapped) => Some(mapped),
        _ => None,
    });
    let libc = mapped
        .clone()
        .find(|it| it.path.contains("libc"))
        .expect("the C library is mapped");
    assert!(libc.build_id.as_ref().is_some_and(|id| id.0.len() == 40));
    assert!(mapped.clone().count() >= 3);
    assert!(events.iter().any(|it| it.kind == SidebandKind::Exit));
    assert!(events.iter().any(|it| it.kind == SidebandKind::SwitchOut));
    // Where the kernel states its clock, it is that of the records.
    if let Some(clock) = clock {
        assert!(clock.mult > 0 && clock.shift < 64);
    }
}
