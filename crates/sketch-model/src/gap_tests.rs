//! Tests of gaps: every kind has its sentence, the wire keeps every value and reads what
//! earlier releases wrote, and losses of one kind add up.

use super::*;
use crate::RuntimeAddress;
use proptest::prelude::*;

/// One of each kind, with foreign words that would act on a terminal. Where a kind has several
/// causes, one of each.
fn samples() -> Vec<Gap> {
    use Gap::*;
    let nasty = || "a\x1b[2J\n\u{202e}b".to_owned();
    let count = 3;
    let mut all = vec![
        HitsLost {
            lost: 3,
            counted: 10,
        },
        HitsLostInRing { count },
        HitsUnreadable { count },
        HitsWithoutSlot { count },
        HitsOfChildren { count },
        HitsBeyondMemory {
            kept_bytes: 32 << 20,
        },
        HitsTrimmed { count, kept: 2048 },
        HitsWithheld { count },
        HitsWithoutTime { count },
        HitsUnattributed { count },
        HitsAmbiguous { count },
        WatchpointPaused { count },
        WatchpointIdUnread { count, errno: 5 },
        WatchpointCounterUnread { count, errno: 5 },
        WatchingEndedByHits { hits: 2048 },
        WatchingEndedBySwitches { switches: 9 },
        NoWatchpointFree {
            locations: vec![LocationName::Global(nasty())],
        },
        LocationsNotWatched {
            locations: vec![LocationName::Global(nasty()), LocationName::Unnamed],
        },
        WatchingGivenUp,
        EventsUnfinished { tid: 7, count },
        EventsLost { tid: 7, count },
        EventsWithoutHook { count },
        AccessesThinned,
        FreedBlocksForgotten { count },
        ThreadRecordedTwice {
            thread: ThreadIndex(1),
        },
        CounterForbidden,
        ThreadIdsUnknown,
        RuntimeNotActive,
        RecordsUnreadable { because: nasty() },
        RecordingPaused {
            times: 1,
            limit_ppm: 5_000,
            on_permille: 437,
        },
        MappingsNotLookedAt { most: 4096 },
        AgentDefect {
            doing: nasty(),
            message: nasty(),
        },
        CrashCaptureUnfinished,
        CrashCapturedInSandbox,
        OnlyFirstSignalCaptured,
        CutShort { signal: nasty() },
        WentOnAfterSignal { signal: nasty() },
        HangGoesOn,
        ThreadsNotCaptured {
            captured: 64,
            all: 70,
        },
        ThreadNotCaptured {
            tid: 7,
            because: nasty(),
        },
        AbortMessageWithheld,
        RunNotRecorded { because: nasty() },
        NamedPatchRefused { because: nasty() },
        TrackedBuildRefused { because: nasty() },
        TrackedBuildNotExecuted { because: nasty() },
        TrackedBuildTooCostly {
            excess_ns: 1_500_000,
            limit_ppm: 10_000,
        },
        TraceRefused { because: nasty() },
        TraceReaderFailed,
        TraceNotLimited { because: nasty() },
        TraceReadWhileWritten { cpu: 2, errno: 5 },
        SidebandLost { count },
        SidebandUnreadable { count },
        SwitchesNotKept { count },
        MappingsNotKept { count },
        PerfRecordsLost { count },
        TraceBufferFull { count },
        TraceOverwritten { count },
        TraceHoles { count },
        TraceDoubtful { tid: 7, count },
        TraceUnassigned { count },
        ThreadTraceIncomplete { tid: 7 },
        TraceWithoutProgram,
        TraceNotDecoded { because: nasty() },
        TraceMissing,
        CodeUnknown { path: nasty() },
        PerfFileCut,
        ProcessorUnknown,
        ClockUnknown,
        ImportedFromPerf,
        FailurePlaceFromTrace,
        ModuleWithoutDebugInfo { module: nasty() },
        StatementNotInBuild {
            statement: StatementId(9),
            statements: 4,
        },
        SliceCut { statements: 1024 },
        PointsToOverBudget,
        LoadsUnresolved { count },
        AssemblyOpaque { count },
        TracedRunsNotKept { count },
        PlansCountedApart {
            plans: vec![PlanCounts {
                plan: 0,
                failed: 1,
                runs: 2,
            }],
        },
        StatementsNeverRan {
            idle: 1,
            tracked: 4,
        },
        FailedOtherwise { count },
        StatementsNotShown { count },
        ThreadsNotDrawn { count },
        Words(nasty()),
    ];
    let aims = [
        AimObstacle::RefusedByKernel,
        AimObstacle::Contended,
        AimObstacle::OverLimit,
        AimObstacle::Sandboxed,
        AimObstacle::OwnStack,
    ];
    all.extend(aims.map(|because| AimsSkipped { count, because }));
    let refusals = [
        WatchRefusal::Policy,
        WatchRefusal::NotOffered,
        WatchRefusal::ImportedFromPerf,
        WatchRefusal::RuntimeNotStarted,
        WatchRefusal::InProgram {
            call: WatchCall::PerfEventOpen,
            errno: 13,
        },
        WatchRefusal::InProgram {
            call: WatchCall::Sendmsg,
            errno: 13,
        },
        WatchRefusal::AtStep { step: 9, errno: 1 },
        WatchRefusal::AgentTooSlow,
        WatchRefusal::AgentRefused,
        WatchRefusal::PageNotMapped,
        WatchRefusal::NoneSent,
        WatchRefusal::RingNotMapped { errno: Some(1) },
        WatchRefusal::RingNotMapped { errno: None },
        WatchRefusal::RingNotShared { errno: 22 },
        WatchRefusal::SocketRefused { errno: 24 },
        WatchRefusal::ReaderFailed,
        WatchRefusal::Words(nasty()),
    ];
    all.extend(refusals.map(|because| NoWatchpoints { because }));
    let losses = [
        ThreadLoss::NoRoom { slots: 64 },
        ThreadLoss::TooFast,
        ThreadLoss::EndedNotKept,
    ];
    all.extend(losses.map(|because| ThreadsNotRecorded { count, because }));
    let obstacles = [
        LifetimeObstacle::OwnAllocator,
        LifetimeObstacle::NotPreloaded,
        LifetimeObstacle::Withheld,
    ];
    all.extend(obstacles.map(|because| LifetimesNotObserved { because }));
    let bytes = 65_536;
    all.extend([MappingsOf::Start, MappingsOf::Crash].map(|when| MappingsCut { when, bytes }));
    let stacks = [
        StackObstacle::Exit,
        StackObstacle::RuntimeNotActive,
        StackObstacle::NotHandled { signal: nasty() },
        StackObstacle::TakenByProgram { signal: nasty() },
    ];
    all.extend(stacks.map(|because| NoStack { because }));
    let checkers = [
        CheckerFailure::NotStarted { errno: 2 },
        CheckerFailure::ShellStatus { status: 127 },
        CheckerFailure::Killed,
    ];
    all.extend(checkers.map(|because| CheckerFailed { because }));
    let preloads = [
        PreloadObstacle::StaticallyLinked,
        PreloadObstacle::Sanitizer { library: nasty() },
        PreloadObstacle::NoFile { because: nasty() },
    ];
    all.extend(preloads.map(|because| NothingPreloaded { because }));
    let withdrawals = [
        Withdrawal::FailsOtherwise {
            failures: 3,
            runs: 23,
            original_failures: 0,
            original_runs: 51,
        },
        Withdrawal::FailsTooOften {
            failures: 29,
            runs: 30,
        },
        Withdrawal::TooSlow {
            percent: 210,
            runs: 10,
        },
        Withdrawal::Words(nasty()),
    ];
    all.extend(withdrawals.map(|because| TrackedBuildWithdrawn { because }));
    let parts = [
        RecordPart::IntelPt,
        RecordPart::WatchpointHits,
        RecordPart::Threads,
    ];
    all.extend(parts.map(|part| LeftOut {
        part,
        bytes: 200,
        most: 100,
    }));
    let at = RuntimeAddress(0x40_1000);
    let reasons = [
        TraceGapReason::NoSync,
        TraceGapReason::Overflow,
        TraceGapReason::BadPacket,
        TraceGapReason::Truncated,
        TraceGapReason::EndsWhileTracing,
        TraceGapReason::NoCode { at },
        TraceGapReason::Contradiction(nasty().into()),
        TraceGapReason::Endless { from: at },
        TraceGapReason::Decoder(nasty().into()),
    ];
    all.extend(reasons.map(|reason| TraceDamaged {
        tid: 7,
        reason,
        count,
    }));
    let routines = [
        UnknownRoutine::StdThread,
        UnknownRoutine::ThreadStart,
        UnknownRoutine::Callback {
            library_function: nasty(),
        },
    ];
    all.extend(routines.map(|routine| RoutineUnknown {
        function: nasty(),
        routine,
    }));
    all
}

/// serde names every kind in its refusal of an unknown one; each must have a sample.
#[test]
fn every_kind_has_a_sample() {
    let refusal = serde_json::from_str::<Gap>(r#"{"kind":"?"}"#).unwrap_err();
    let refusal = refusal.to_string();
    let kinds: Vec<&str> = refusal.split('`').skip(3).step_by(2).collect();
    assert!(kinds.len() > 70, "{refusal}");
    let written = serde_json::to_value(samples()).unwrap();
    for kind in kinds {
        let mut gaps = written.as_array().unwrap().iter();
        assert!(gaps.any(|it| it["kind"] == kind), "{kind} has no sample");
    }
}

#[test]
fn every_kind_has_a_sentence_in_which_no_character_acts() {
    let mut sentences = std::collections::BTreeSet::new();
    for gap in samples() {
        let sentence = gap.to_string();
        assert!(sentence.len() > 10 && !sentence.ends_with('.'), "{gap:?}");
        assert_eq!(sentence, crate::printable(&sentence), "{gap:?}");
        assert!(sentences.insert(sentence), "{gap:?} reads like another one");
    }
}

/// As agents and servers of 0.1 wrote them.
#[test]
fn sentences_of_earlier_releases_are_read_and_written_as_they_were() {
    let stored = r#"["3 of 10 watchpoint hits were lost","thread 7 lost 2 of its events"]"#;
    let gaps: Vec<Gap> = serde_json::from_str(stored).unwrap();
    assert_eq!(
        gaps[0],
        Gap::Words("3 of 10 watchpoint hits were lost".to_owned())
    );
    assert_eq!(gaps[1].to_string(), "thread 7 lost 2 of its events");
    assert_eq!(serde_json::to_string(&gaps).unwrap(), stored);

    let stored = r#"{"hits":[],"counted":0,"armed":0,"skipped_aims":0,"disarmed":0,"refused":"perf records no watchpoints"}"#;
    let watch: crate::WatchRecord = serde_json::from_str(stored).unwrap();
    let refused = watch.refused.clone().unwrap();
    assert_eq!(
        refused,
        WatchRefusal::Words("perf records no watchpoints".to_owned())
    );
    assert_eq!(serde_json::to_string(&watch).unwrap(), stored);
}

/// A whole record as an agent of 0.1 sent it.
const STORED_RECORD: &str = r#"{"schema":1,"id":"a-1","agent":"a","build":"ab","tier":"watchpoints",
"variant":null,"sampling_probability":1.0,"outcome":{"failure":{"schema":1,"kind":{"signal":{"number":11,
"name":"SIGSEGV"}},"fault_address":0,"threads":[],"mappings":[],"gaps":["no stack was captured: the runtime
does not handle SIGSEGV"]}},"wall_us":1,"cpu_us":1,"threads":[],"unrecorded_threads":0,"watch":{"hits":[],
"counted":0,"armed":0,"skipped_aims":0,"disarmed":0,"refused":"seccomp"},"clock":{"start_tsc":0,
"start_ns":0,"end_tsc":1,"end_ns":1,"error_ns":0},"mappings":[],"gaps":["the run was cut short by SIGTERM",
"2 watchpoint hits were lost in a full ring"],"privacy":"full"}"#;

#[test]
fn a_record_of_an_earlier_release_is_read_with_all_its_sentences() {
    let stored = STORED_RECORD.replace('\n', " ");
    let record: crate::RunRecord = serde_json::from_str(&stored).unwrap();
    let words = |text: &str| Gap::Words(text.to_owned());
    let lost = "2 watchpoint hits were lost in a full ring";
    assert_eq!(
        record.gaps,
        [words("the run was cut short by SIGTERM"), words(lost)]
    );
    let seccomp = WatchRefusal::Words("seccomp".to_owned());
    assert_eq!(record.watch.refused, Some(seccomp));
    let crate::Outcome::Failure(report) = &record.outcome else {
        panic!("it failed");
    };
    let no_stack = "no stack was captured: the runtime does not handle SIGSEGV";
    assert_eq!(report.gaps, [words(no_stack)]);
    // A server keeps records as JSON: what it read it writes again.
    let again = serde_json::to_value(&record).unwrap();
    let stored: serde_json::Value = serde_json::from_str(&stored).unwrap();
    assert_eq!(again["gaps"], stored["gaps"]);
}

#[test]
fn the_wire_form_is_a_kind_and_its_numbers() {
    let gap = Gap::HitsLost {
        lost: 3,
        counted: 10,
    };
    assert_eq!(
        serde_json::to_string(&gap).unwrap(),
        r#"{"kind":"hits_lost","lost":3,"counted":10}"#
    );
    for bad in [
        "7",
        "null",
        "[]",
        r#"{"kind":"hits_lost"}"#,
        r#"{"lost":3}"#,
    ] {
        assert!(serde_json::from_str::<Gap>(bad).is_err(), "{bad}");
    }
}

#[test]
fn losses_of_one_kind_add_up_and_others_stay_apart() {
    let mut gaps = Vec::new();
    for gap in [
        Gap::EventsLost { tid: 7, count: 2 },
        Gap::EventsLost { tid: 8, count: 1 },
        Gap::EventsLost { tid: 7, count: 3 },
        Gap::AccessesThinned,
        Gap::AccessesThinned,
        Gap::HitsLost {
            lost: 1,
            counted: 2,
        },
        Gap::HitsLost {
            lost: 2,
            counted: 2,
        },
        Gap::HitsLostInRing { count: u64::MAX },
        Gap::HitsLostInRing { count: 1 },
        Gap::HitsOfChildren { count: 0 },
    ] {
        gap.add_to(&mut gaps);
    }
    assert_eq!(
        gaps,
        [
            Gap::EventsLost { tid: 7, count: 5 },
            Gap::EventsLost { tid: 8, count: 1 },
            Gap::AccessesThinned,
            Gap::HitsLost {
                lost: 1,
                counted: 2
            },
            Gap::HitsLost {
                lost: 2,
                counted: 2
            },
            Gap::HitsLostInRing { count: u64::MAX },
        ]
    );
}

#[test]
fn figures_aside_two_runs_with_the_same_losses_are_alike() {
    let lost = |tid, count| Gap::EventsLost { tid, count }.without_figures();
    assert_eq!(lost(7, 2), lost(8, 900));
    let damaged = |at| Gap::TraceDamaged {
        tid: 1,
        reason: TraceGapReason::NoCode {
            at: RuntimeAddress(at),
        },
        count: 1,
    };
    assert_ne!(damaged(1), damaged(2));
    assert_eq!(damaged(1).without_figures(), damaged(2).without_figures());
    // What is lost, and why, is no figure.
    let skipped = |because| Gap::AimsSkipped { count: 1, because }.without_figures();
    assert_ne!(
        skipped(AimObstacle::Contended),
        skipped(AimObstacle::OwnStack)
    );
}

proptest! {
    #[test]
    fn any_gap_survives_the_wire(
        at in 0..samples().len(), count in any::<u64>(), words in ".*",
    ) {
        let samples = samples();
        for gap in [samples[at].clone().counted(count), Gap::Words(words)] {
            let written = serde_json::to_string(&gap).unwrap();
            prop_assert_eq!(serde_json::from_str::<Gap>(&written).unwrap(), gap);
        }
    }

    #[test]
    fn adding_keeps_the_sum(counts in proptest::collection::vec(1u64..1 << 32, 1..9)) {
        let mut gaps = Vec::new();
        for count in &counts {
            Gap::HitsOfChildren { count: *count }.add_to(&mut gaps);
        }
        prop_assert_eq!(gaps, [Gap::HitsOfChildren { count: counts.iter().sum() }]);
    }
}
