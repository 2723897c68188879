//! Steps a program on processors that do not exist and writes their traces.
//!
//! One thread runs at a time, for so many instructions, on one of the
//! processors; each of these has a trace, and the switches between threads are
//! written as the kernel would write them. Entering the kernel turns tracing
//! off, as it does for a trace of user space, and a filter window does, too.

use super::{
    children::{self, Stop},
    code::Code,
    truth::{Path, overflow},
    writer::{Leave, PtWriter, Setup},
};
use crate::support::Step;
use iced_x86::{FlowControl, Mnemonic};
use object::{Object, ObjectSegment, ObjectSymbol};
use pt_decoder::CodeImage;
use sketch_model::{PerfClock, SidebandEvent, SidebandKind};
use std::{collections::BTreeMap, ops::Range, path::Path as FilePath};

/// How to run a program.
#[derive(Clone, Debug)]
pub struct Plan {
    /// One run is recorded as processors set up in each of these ways would.
    pub setups: Vec<Setup>,
    /// Only the code of this function is traced, or of [`THE_PROGRAM`].
    pub window: Option<&'static str>,
    /// After so many instructions the processor drops as many packets as twenty
    /// instructions make.
    pub overflow_every: Option<usize>,
    pub processors: usize,
    /// Instructions until another thread runs.
    pub quantum: usize,
}

impl Plan {
    pub fn new(setups: &[Setup]) -> Self {
        Self {
            setups: setups.to_vec(),
            window: None,
            overflow_every: None,
            processors: 1,
            quantum: usize::MAX,
        }
    }
}

/// What was recorded, and what is true.
pub struct Recorded {
    pub pid: i32,
    /// For each setup, one for each processor.
    pub traces: Vec<Vec<Vec<u8>>>,
    pub image: CodeImage,
    pub sideband: Vec<SidebandEvent>,
    pub truth: BTreeMap<i32, Path>,
    pub steps: usize,
    pub status: i32,
}

impl Recorded {
    pub fn only_truth(&self) -> &Path {
        assert_eq!(self.truth.len(), 1);
        self.truth.values().next().unwrap()
    }
}

/// The clock of the sideband: a nanosecond is a tick.
pub const CLOCK: PerfClock = PerfClock {
    shift: 10,
    mult: 1024,
    zero: 0,
};

/// A window: the program without its libraries, as the agent asks for it.
pub const THE_PROGRAM: &str = "the program";

const MOST_STEPS: usize = 100_000;
const LOST_INSTRUCTIONS: usize = 20;

struct Thread {
    tid: i32,
    ip: u64,
    signal: i32,
    blocked: bool,
    path: Path,
}

struct Machine {
    plan: Plan,
    window: Option<Range<u64>>,
    code: Code,
    /// For each setup, one for each processor.
    writers: Vec<Vec<PtWriter>>,
    /// What runs there is being traced.
    on: bool,
    losing: usize,
    steps: usize,
    now: u64,
}

/// Runs a program from a function on, to its end.
pub fn record(program: &FilePath, from: &str, plan: &Plan) -> Recorded {
    let pid = children::start(program);
    let bias = bias(pid, program);
    let entry = symbol(program, from).start + bias;
    if children::registers(pid).rip != entry {
        children::run_to(pid, entry);
    }
    let window = plan.window.map(|name| match name {
        THE_PROGRAM => text(program),
        name => symbol(program, name),
    });
    let mut machine = Machine {
        window: window.map(|it| it.start + bias..it.end + bias),
        code: Code::of_process(pid),
        writers: plan
            .setups
            .iter()
            .map(|it| (0..plan.processors).map(|_| PtWriter::new(*it)).collect())
            .collect(),
        plan: plan.clone(),
        on: false,
        losing: 0,
        steps: 0,
        now: 1_000_000,
    };
    let (truth, switches, status) = machine.run(pid, entry);
    let mut sideband: Vec<_> = machine
        .code
        .mapped
        .iter()
        .map(|mapped| SidebandEvent {
            time_ns: None,
            cpu: None,
            pid,
            tid: pid,
            kind: SidebandKind::Mapped(mapped.clone()),
        })
        .collect();
    sideband.extend(switches);
    children::end(pid);
    Recorded {
        pid,
        traces: machine
            .writers
            .into_iter()
            .map(|it| it.into_iter().map(PtWriter::finish).collect())
            .collect(),
        image: machine.code.image,
        sideband,
        truth,
        steps: machine.steps,
        status,
    }
}

impl Machine {
    fn run(&mut self, pid: i32, entry: u64) -> (BTreeMap<i32, Path>, Vec<SidebandEvent>, i32) {
        let mut threads = vec![thread(pid, entry)];
        let (mut ended, mut sideband, mut status) = (BTreeMap::new(), Vec::new(), 0);
        let (mut turn, mut processor) = (0, 0);
        let mut idle = 0;
        while !threads.is_empty() && self.steps < MOST_STEPS {
            turn %= threads.len();
            let current = &mut threads[turn];
            let mut stop = Stop::Stepped;
            if current.blocked {
                stop = children::look_after(current.tid);
                if stop == Stop::Blocked {
                    turn += 1;
                    idle += 1;
                    std::thread::sleep(std::time::Duration::from_micros(200));
                    assert!(idle < 20_000, "every thread waits");
                    continue;
                }
                current.blocked = false;
            }
            idle = 0;
            processor = (processor + 1) % self.plan.processors;
            let mut switch = |now, tid, kind| {
                sideband.push(SidebandEvent {
                    time_ns: Some(now),
                    cpu: Some(processor as u32),
                    pid,
                    tid,
                    kind,
                });
            };
            switch(self.now, current.tid, SidebandKind::SwitchIn);
            self.now += 10;
            let mut made = None;
            let mut left = self.plan.quantum;
            loop {
                match self.after(stop, current, processor) {
                    Next::Go if left == 0 => break,
                    Next::Go => {}
                    Next::Made(tid) => made = Some(tid),
                    Next::Switch => break,
                    Next::End(code) => {
                        status = code;
                        break;
                    }
                }
                left = left.saturating_sub(1);
                stop = self.step(current, processor);
            }
            self.turn_off(current, processor);
            self.now += 10;
            switch(self.now, current.tid, SidebandKind::SwitchOut);
            self.now += 10;
            if matches!(stop, Stop::Ended(_)) {
                let gone = threads.remove(turn);
                ended.insert(gone.tid, gone.path);
            } else {
                turn += 1;
            }
            if let Some(tid) = made {
                assert_eq!(children::wait_for(tid), Stop::Signal(libc::SIGSTOP));
                threads.push(thread(tid, children::registers(tid).rip));
            }
        }
        assert!(self.steps < MOST_STEPS, "the program does not end");
        (ended, sideband, status)
    }

    /// Lets the thread execute one instruction; writes what it writes up to
    /// where the outcome must be known.
    fn step(&mut self, thread: &mut Thread, processor: usize) -> Stop {
        let instruction = *self.code.at(thread.ip);
        if thread.signal != 0 {
            self.turn_off(thread, processor);
        } else if instruction.mnemonic() == Mnemonic::Syscall && self.on {
            self.retire(thread, processor, thread.ip, Some(Leave::Kernel));
        }
        let stop = children::step(thread.tid, thread.signal);
        thread.signal = 0;
        self.steps += 1;
        stop
    }

    /// What a stop means: the instruction before it was executed or not, and
    /// the thread goes on or does not.
    fn after(&mut self, stop: Stop, thread: &mut Thread, processor: usize) -> Next {
        match stop {
            Stop::Ended(status) => return Next::End(status),
            Stop::Blocked => {
                thread.blocked = true;
                return Next::Switch;
            }
            Stop::Cloned(tid) => return Next::Made(tid),
            Stop::Signal(signal) => thread.signal = signal,
            Stop::Stepped => {}
        }
        let next = children::registers(thread.tid).rip;
        let instruction = *self.code.at(thread.ip);
        let moved = next != thread.ip
            || matches!(
                instruction.flow_control(),
                FlowControl::UnconditionalBranch | FlowControl::ConditionalBranch
            );
        if self.on && moved {
            let leaves = !self.traced(next);
            self.retire(thread, processor, next, leaves.then_some(Leave::Filter));
        }
        thread.ip = next;
        if !self.on && self.traced(next) {
            self.now += 5;
            self.write(processor, |it| it.turn_on(next));
            self.on = true;
        }
        Next::Go
    }

    fn retire(&mut self, thread: &mut Thread, processor: usize, next: u64, leave: Option<Leave>) {
        let instruction = *self.code.at(thread.ip);
        let every = self.plan.overflow_every;
        if leave.is_none() && self.losing == 0 && every.is_some_and(|n| self.steps % n == n - 1) {
            self.losing = LOST_INSTRUCTIONS;
        }
        if self.losing > 0 {
            // Nothing is written; an overflow ends where tracing is on.
            self.losing -= 1;
            if self.losing == 0 || leave.is_some() {
                self.losing = 0;
                let ip = thread.ip;
                self.write(processor, |it| it.overflowed(ip));
                thread.path.push(overflow());
            } else {
                return;
            }
        }
        self.now += 3;
        self.write(processor, |it| it.retired(&instruction, next, leave));
        thread.path.push(Step::At(thread.ip));
        if leave.is_some() {
            thread.path.push(Step::Paused);
            self.on = false;
        }
    }

    fn turn_off(&mut self, thread: &mut Thread, processor: usize) {
        if std::mem::take(&mut self.losing) > 0 {
            let ip = thread.ip;
            self.write(processor, |it| it.overflowed(ip));
            thread.path.push(overflow());
        }
        if std::mem::take(&mut self.on) {
            let ip = thread.ip;
            self.write(processor, |it| it.interrupted(ip));
            thread.path.push(Step::Paused);
        }
    }

    fn traced(&self, ip: u64) -> bool {
        self.window.as_ref().is_none_or(|it| it.contains(&ip))
    }

    fn write(&mut self, processor: usize, what: impl Fn(&mut PtWriter)) {
        for writers in &mut self.writers {
            let writer = &mut writers[processor];
            writer.tsc = self.now;
            what(writer);
        }
    }
}

enum Next {
    Go,
    Switch,
    Made(i32),
    End(i32),
}

fn thread(tid: i32, ip: u64) -> Thread {
    Thread {
        tid,
        ip,
        signal: 0,
        blocked: false,
        path: Path::new(),
    }
}

/// Where a function lies in the file.
pub fn symbol(program: &FilePath, name: &str) -> Range<u64> {
    let bytes = std::fs::read(program).unwrap();
    let file = object::File::parse(&*bytes).unwrap();
    let found = file.symbols().find(|it| it.name() == Ok(name));
    let found = found.unwrap_or_else(|| panic!("{name} is not in {}", program.display()));
    found.address()..found.address() + found.size()
}

/// The segment with the program's own code.
fn text(program: &FilePath) -> Range<u64> {
    let bytes = std::fs::read(program).unwrap();
    let file = object::File::parse(&*bytes).unwrap();
    let mut segments = file
        .segments()
        .map(|it| it.address()..it.address() + it.size());
    segments.find(|it| it.contains(&file.entry())).unwrap()
}

/// Where the file was loaded, against what it says.
fn bias(pid: i32, program: &FilePath) -> u64 {
    let bytes = std::fs::read(program).unwrap();
    let file = object::File::parse(&*bytes).unwrap();
    if file.kind() != object::ObjectKind::Dynamic {
        return 0;
    }
    let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).unwrap();
    let first = maps
        .lines()
        .find(|line| line.contains(program.to_str().unwrap()))
        .unwrap();
    u64::from_str_radix(first.split('-').next().unwrap(), 16).unwrap()
}
