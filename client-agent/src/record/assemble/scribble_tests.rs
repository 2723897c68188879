//! Whatever a program writes over the memory that it shares with us: the record is made
//! without a panic, and by bounded work.
//!
//! A region as a real run leaves it (this process's mappings, a stack of its own, threads
//! with events) is damaged at random while a steward looks after it and once more at the
//! end. Then everything that follows a run's end is done with it, without the barrier
//! that would hide a panic. `FAILSKETCH_SOAK` makes it many more cases.

use super::*;
use crate::governor::ledger::{Cost, Ledger, Reserved};
use crate::governor::run_governor::{Budget, Costs, Steward};
use crate::process::modules::{MOST_MODULES, ModuleCache};
use crate::process::region::{RegionFile, RegionSettings};
use crate::process::supervise::Ending;
use crate::record::redaction;
use proptest::prelude::*;
use runtime::layout::{
    CRASH_COMPLETE, Control, Crash, EDGES, Edge, Event, HEAD_EVENTS, Header, KIND_WRITE,
    LIFETIMES_OBSERVED, Lifetimes, MAPS_BYTES, REGION_SIZE, RING_EVENTS, Region, SLOT_USED,
    STACK_BYTES, THREAD_SLOTS, ThreadSlot, WATCH_READY,
};
use sketch_model::{
    AgentId, BuildId, CampaignId, Capabilities, Execution, Privacy, RuntimeAddress, VariantRef,
    WatchHit,
};
use std::{
    cell::{Cell, LazyCell},
    fs::{self, File},
    mem::{offset_of, size_of},
    os::unix::fs::FileExt,
    sync::{Arc, LazyLock},
    time::Instant,
};

const CASES: u32 = 48;
const SOAK_CASES: u32 = 10_000;
const LARGEST_RECORD: usize = 15 << 20;
const VARIANT: VariantRef = VariantRef {
    campaign: CampaignId(1),
    iteration: 1,
    plan: 0,
};

thread_local! {
    static FAILS: Cell<bool> = const { Cell::new(false) };
}

/// A defect that reading what a run left comes upon.
pub fn fail_if_asked() {
    assert!(!FAILS.get(), "a defect of ours");
}

fn cases() -> u32 {
    match std::env::var_os("FAILSKETCH_SOAK") {
        Some(_) => SOAK_CASES,
        None => CASES,
    }
}

/// This very program, as one that is supervised.
static PROGRAM: LazyLock<KnownProgram> = LazyLock::new(|| {
    let real_path = std::env::current_exe().expect("has a path");
    let bytes = fs::read(&real_path).expect("is readable");
    KnownProgram {
        build: BuildId("ab".into()),
        facts: Arc::new(formats::elf::ElfFacts::read(&bytes).expect("is ELF")),
        bytes,
        real_path,
    }
});

fn recorder() -> Recorder {
    Recorder {
        agent: AgentId("test".into()),
        capabilities: Capabilities::watchpoints(),
        pt: None,
        preload: Err("not needed".into()),
        failing_exits: vec![3],
        hang: None,
        check: None,
        budget: Some(Budget::of_share(0.01)),
        trap_budget: 16,
        watch_way: WatchWay::Ring,
        costs: LazyCell::new(|| Costs::NONE),
        modules: ModuleCache::default(),
    }
}

fn recording(tracked: Option<&TrackedBuild>) -> Recording<'_> {
    Recording {
        known: &PROGRAM,
        tracked,
        asked_to_watch: true,
        start: Start {
            at: Instant::now(),
            clock: clock::read(),
        },
        trace: None,
        preparation: None,
        gaps: vec![Gap::HangGoesOn],
    }
}

fn ended(ending: Ending) -> Ended {
    Ended {
        ending,
        cpu_us: 5_000,
        switches: 40,
        asked_to_end: false,
    }
}

/// xorshift64*: the same seed damages the same bytes.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    fn below(&mut self, end: usize) -> usize {
        (self.next() % end.max(1) as u64) as usize
    }

    /// Numbers at which arithmetic goes wrong, small ones, and any.
    fn word(&mut self) -> u64 {
        const EXTREMES: [u64; 8] = [
            0,
            1,
            u64::MAX,
            u64::MAX - 7,
            i64::MAX as u64,
            1 << 63,
            u32::MAX as u64,
            (u32::MAX as u64) << 32,
        ];
        match self.below(4) {
            0 => self.next(),
            1 => self.next() % 5000,
            _ => EXTREMES[self.below(EXTREMES.len())],
        }
    }
}

/// A region as a run leaves it.
struct Scene {
    region: RegionFile,
    file: File,
}

impl Scene {
    fn new() -> Scene {
        let region = RegionFile::create(&RegionSettings {
            want_watch: 4,
            cpus: 2,
            socket: None,
            arm_limit: 16,
            reply_patience_ms: 0,
            tracked: true,
            start: None,
        })
        .expect("a region");
        let file = File::from(region.fd().try_clone_to_owned().expect("a descriptor"));
        let scene = Scene { region, file };
        let (header, control) = (offset_of!(Region, header), offset_of!(Region, control));
        let pid = std::process::id();
        scene.put(header + offset_of!(Header, pid), &pid.to_le_bytes());
        let ready = WATCH_READY.to_le_bytes();
        scene.put(header + offset_of!(Header, watch_state), &ready);
        let lifetimes = offset_of!(Region, lifetimes) + offset_of!(Lifetimes, observed);
        scene.put(lifetimes, &LIFETIMES_OBSERVED.to_le_bytes());
        scene.put(control + offset_of!(Control, enabled), &1u32.to_le_bytes());
        scene.maps_and_crash();
        scene.threads();
        scene
    }

    fn put(&self, at: usize, bytes: &[u8]) {
        self.file.write_all_at(bytes, at as u64).expect("written");
    }

    /// The mappings of this process, and this thread as one that crashed just now.
    #[inline(never)]
    fn maps_and_crash(&self) {
        let mut maps = fs::read("/proc/self/maps").expect("readable");
        maps.truncate(MAPS_BYTES);
        let length = (maps.len() as u32).to_le_bytes();
        let header = offset_of!(Region, header);
        self.put(offset_of!(Region, maps), &maps);
        self.put(header + offset_of!(Header, maps_length), &length);
        let (rsp, rbp): (u64, u64);
        // SAFETY: reads two registers.
        unsafe {
            std::arch::asm!("mov {}, rsp", "mov {}, rbp", out(reg) rsp, out(reg) rbp);
        }
        let mut stack = vec![0; STACK_BYTES];
        // The stack may end before; the rest stays zero.
        let memory = File::open("/proc/self/mem").expect("ours");
        let _ = memory.read_at(&mut stack, rsp);
        let rip = Scene::maps_and_crash as *const () as u64 + 16;
        let crash = offset_of!(Region, crash);
        let word = |at: usize, value: u64| self.put(crash + at, &value.to_le_bytes());
        let half = |at: usize, value: u32| self.put(crash + at, &value.to_le_bytes());
        word(offset_of!(Crash, registers) + 6 * 8, rbp);
        word(offset_of!(Crash, registers) + 7 * 8, rsp);
        word(offset_of!(Crash, rip), rip);
        word(offset_of!(Crash, stack_start), rsp);
        half(offset_of!(Crash, stack_length), STACK_BYTES as u32);
        half(offset_of!(Crash, maps_length), maps.len() as u32);
        half(offset_of!(Crash, signal), libc::SIGSEGV as u32);
        half(offset_of!(Crash, code), 1);
        half(offset_of!(Crash, tid), std::process::id());
        half(offset_of!(Crash, state), CRASH_COMPLETE);
        self.put(crash + offset_of!(Crash, maps), &maps);
        self.put(crash + offset_of!(Crash, stack), &stack);
    }

    /// Three threads, of which one lives, with some events each.
    fn threads(&self) {
        for (number, tid) in [(0, std::process::id()), (1, 999_999), (2, 999_998)] {
            let slot = slot(number);
            for (field, value) in [
                (offset_of!(ThreadSlot, state), SLOT_USED),
                (offset_of!(ThreadSlot, tid), tid),
                (offset_of!(ThreadSlot, count), 20),
            ] {
                self.put(slot + field, &value.to_le_bytes());
            }
            for event in 0..20 {
                let at = slot + offset_of!(ThreadSlot, head) + event * size_of::<Event>();
                self.put(at + offset_of!(Event, kind), &KIND_WRITE.to_le_bytes());
                self.put(at + offset_of!(Event, size), &4u16.to_le_bytes());
            }
        }
    }

    /// One blow: a word or a stretch, most often where numbers and lengths are.
    fn damage(&self, random: &mut Random) {
        let crash = offset_of!(Region, crash);
        let control = offset_of!(Region, control);
        let any_slot = slot(random.below(THREAD_SLOTS));
        let (from, length) = match random.below(9) {
            0 | 1 => (0, size_of::<Header>()),
            2 => (control, offset_of!(Control, patience) + 8),
            3 => (crash, offset_of!(Crash, message)),
            4 => (any_slot, offset_of!(ThreadSlot, edges)),
            5 => (
                any_slot + offset_of!(ThreadSlot, edges),
                EDGES * size_of::<Edge>(),
            ),
            6 => (crash + offset_of!(Crash, stack), STACK_BYTES),
            7 => (crash + offset_of!(Crash, maps), MAPS_BYTES),
            _ => (0, REGION_SIZE),
        };
        let at = from + random.below(length) / 4 * 4;
        let bytes = match random.below(8) {
            0 => (0..random.below(512)).map(|_| random.next()).collect(),
            1 => vec![random.word(); random.below(4096)],
            _ => vec![random.word()],
        };
        let mut bytes: Vec<u8> = bytes.iter().flat_map(|word| word.to_le_bytes()).collect();
        bytes.truncate(REGION_SIZE - at);
        self.put(at, &bytes);
    }

    /// Every byte is another one.
    fn overwrite(&self, random: &mut Random) {
        let words = (0..REGION_SIZE / 8).flat_map(|_| random.next().to_le_bytes());
        self.put(0, &words.collect::<Vec<u8>>());
    }
}

fn slot(number: usize) -> usize {
    offset_of!(Region, threads) + number * size_of::<ThreadSlot>()
}

fn hit(random: &mut Random) -> WatchHit {
    WatchHit {
        slot: 1,
        tid: random.word() as i32,
        handled_ns: random.word(),
        after_pc: RuntimeAddress(random.word()),
        address: RuntimeAddress(random.word()),
        registers: std::array::from_fn(|_| random.word()),
        stack: vec![random.word(); 4],
    }
}

/// A run whose region is damaged on the way, from its start to its record.
fn damaged_run(seed: u64, recorder: &mut Recorder, tracked: &TrackedBuild) -> RunRecord {
    let mut random = Random(seed | 1);
    let scene = Scene::new();
    let costs = Costs {
        ticks_per_ns: 2.0,
        hit_ns: 20_000,
    };
    let budget = (random.below(4) > 0).then(|| Budget::of_share(0.01));
    let mut steward = Steward::new(scene.region.live().expect("mapped"), budget, costs);
    for _ in 0..12 {
        let hits = random.next() % 100;
        steward.look(hits);
        steward.too_many_switches();
        for _ in 0..random.below(6) {
            scene.damage(&mut random);
        }
    }
    if random.below(8) == 0 {
        scene.overwrite(&mut random);
    }
    let mut collected = Collected {
        counted: random.word(),
        hits: (0..random.below(40)).map(|_| hit(&mut random)).collect(),
        report: steward.finish(),
        ..Collected::default()
    };
    let bytes = scene.region.bytes().expect("readable");
    let mut remains = Remains::read(&bytes, take(&mut collected.report.ended));
    let gaps = take(&mut remains.gaps);
    let endings = [
        Ending::Signal(libc::SIGSEGV),
        Ending::Signal(libc::SIGSEGV),
        Ending::Signal(random.below(64) as i32),
        Ending::Exit(random.below(256) as i32),
    ];
    let moment = Moment::Ended(ended(endings[random.below(endings.len())]));
    let left = Left {
        remains,
        collected,
        pt: None,
        gaps,
    };
    let timing = Timing {
        end: clock::read(),
        elapsed: Duration::from_millis(5),
    };
    let tracked = (random.below(4) > 0).then_some(tracked);
    recording(tracked).assemble(recorder, &moment, timing, left)
}

/// What was done is bounded by what there is room for.
fn check_bounds(record: &RunRecord) {
    assert!(record.threads.len() <= THREAD_SLOTS + 128);
    for thread in &record.threads {
        assert!(thread.head.len() + thread.tail.len() <= HEAD_EVENTS + RING_EVENTS);
        assert!(thread.edges.len() <= EDGES && thread.thinned.len() <= EDGES);
    }
    assert!(record.mappings.len() <= MOST_MODULES);
    assert!(record.gaps.len() <= record.threads.len() + 60);
    assert!(record.tracking.cost_ns <= 5_000_000 + BUCKET_NS);
    if let Outcome::Failure(report) = &record.outcome {
        assert!(
            report
                .threads
                .iter()
                .all(|thread| thread.frames.len() <= 256)
        );
        assert!(report.mappings.len() <= MOST_MODULES);
        let defect = report
            .gaps
            .iter()
            .find(|gap| matches!(gap, Gap::AgentDefect { .. }));
        assert_eq!(defect, None);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(cases()))]

    #[test]
    fn any_damage_to_the_region_ends_in_a_record(seed in any::<u64>()) {
        thread_local! {
            static SHARED: (Cell<Option<Recorder>>, TrackedBuild) = (
                Cell::new(Some(recorder())),
                TrackedBuild::that_is(&PROGRAM, Execution::Tracked(VARIANT)),
            );
        }
        SHARED.with(|(kept, tracked)| {
            // Files behind mappings are read once.
            let mut recorder = kept.take().unwrap_or_else(recorder);
            let mut record = damaged_run(seed, &mut recorder, tracked);
            kept.set(Some(recorder));
            check_bounds(&record);
            let folder = tempfile::tempdir().expect("a folder");
            let ledger = Ledger::of_build(folder.path(), "ab", 0.01, 0);
            for _ in 0..3 {
                let reserved = ledger.admit(None).unwrap_or(Reserved::none());
                let cost = Cost {
                    ns: record.tracking.cost_ns,
                    was_cut_off: !record.tracking.pauses.is_empty(),
                };
                ledger.settle(record.cpu_us * 1000, reserved, Some(cost));
            }
            if seed % 4 == 0 {
                let level = [Privacy::Full, Privacy::Shapes, Privacy::ControlFlowOnly];
                redaction::reduce(&mut record, level[(seed / 4 % 3) as usize], b"sixteen bytes...");
                let line = crate::record::limits::written(&mut record, LARGEST_RECORD).expect("is JSON");
                assert!(line.len() <= LARGEST_RECORD, "{}", line.len());
            }
        });
    }
}

#[test]
fn a_region_that_nobody_damaged_gives_stack_threads_and_no_gaps() {
    let scene = Scene::new();
    let bytes = scene.region.bytes().expect("readable");
    let mut remains = Remains::read(&bytes, Default::default());
    assert_eq!(take(&mut remains.gaps), Vec::<Gap>::new());
    let left = Left {
        remains,
        collected: Collected::default(),
        pt: None,
        gaps: Vec::new(),
    };
    let timing = Timing {
        end: clock::read(),
        elapsed: Duration::from_millis(5),
    };
    let moment = Moment::Ended(ended(Ending::Signal(libc::SIGSEGV)));
    let record = recording(None).assemble(&mut recorder(), &moment, timing, left);
    assert_eq!(record.threads.len(), 3);
    assert!(record.threads.iter().all(|thread| thread.head.len() == 20));
    let Outcome::Failure(report) = record.outcome else {
        panic!("it died of SIGSEGV");
    };
    let frames = report.threads[0].frames.len();
    assert!(frames > 3, "{:?}", report.threads[0]);
}

#[test]
fn a_defect_of_ours_costs_the_evidence_and_not_the_outcome() {
    for (ending, fails) in [
        (Ending::Exit(0), false),
        (Ending::Exit(3), true),
        (Ending::Signal(libc::SIGSEGV), true),
        (Ending::Signal(libc::SIGTERM), false),
    ] {
        FAILS.set(true);
        let record = recording(None).record(&mut recorder(), &Moment::Ended(ended(ending)));
        FAILS.set(false);
        assert_eq!(record.failed(), fails, "{ending:?}");
        assert_eq!((record.cpu_us, record.unrecorded_threads), (5_000, 1));
        assert_eq!(record.gaps.len(), 2);
        assert_eq!(record.gaps[0], Gap::HangGoesOn);
        assert_eq!(
            record.gaps[1],
            Gap::AgentDefect {
                doing: "making the record of a run".into(),
                message: "a defect of ours".into(),
            }
        );
    }
}
