//! What a processor's trace adds to a run: statements in their order, ways of
//! branches, and what it cannot say.

use diagnosis::evidence::decoded_run::{Hole, Passed, RunThread, WatchCoverage};
use diagnosis::executed;
use diagnosis::{Answer, DecodedRun, TracedInput, add_trace, observe, of_trace};
use sketch_model::{
    BranchWay, Capabilities, EventKind, ExecutedStatement, Execution, ExecutionTrace, Interval,
    Placement, PointKind, Predictor, RunId, SiteId, Source, StatementId, ThreadIndex,
    ThreadStatements, TraceEvent, TracedRun, TrackingPlan, Tsc, VariantRef,
};
use test_support::records;

const VARIANT: VariantRef = records::variant(1, 1, 0);

/// Statements 1 to 5; 2 and 4 are branches at column 3.
fn plan(wants: Capabilities) -> TrackingPlan {
    let branch = |(number, line)| records::site(number, line, PointKind::Branch, 3, None);
    TrackingPlan {
        sigma: 5,
        statements: (1..=5)
            .map(|line| records::statement(line, "f", "/src/a.c", line))
            .collect(),
        sites: [(0, 2), (1, 4)].map(branch).into(),
        ..records::plan(wants)
    }
}

fn ran(id: u32, entry: u64, times: u64) -> ExecutedStatement {
    ExecutedStatement {
        statement: StatementId(id),
        times,
        first: Some(Tsc(100)),
        last: Some(Tsc(100 + entry)),
        until: Some(Tsc(110 + entry)),
        entry,
    }
}

/// One thread: 1, then 2 and 3 by turns, then 9, which the plan does not know.
fn traced() -> TracedRun {
    let way = |statement, successor| BranchWay {
        statement: StatementId(statement),
        column: 3,
        successor,
        times: 1,
    };
    TracedRun {
        threads: vec![ThreadStatements {
            pid: 7,
            tid: 7,
            executed: vec![ran(1, 0, 1), ran(3, 8, 4), ran(2, 7, 4), ran(9, 9, 1)],
            ways: vec![way(2, 0), way(9, 1)],
            complete: true,
            ..ThreadStatements::default()
        }],
        complete: true,
        gaps: Vec::new(),
    }
}

fn alone(traced: &TracedRun, plan: &TrackingPlan) -> DecodedRun {
    let run = RunId("r".into());
    let input = TracedInput {
        agent: &sketch_model::AgentId("agent".into()),
        run: &run,
        campaign: VARIANT.campaign,
        failed: true,
        weight: 1.0,
        failing_tid: Some(7),
        traced,
    };
    of_trace(&input, plan)
}

fn branch(statement: u32, successor: u32) -> Predictor {
    Predictor::Branch {
        statement: StatementId(statement),
        column: 3,
        successor,
    }
}

#[test]
fn a_trace_alone_gives_statements_in_order_and_how_often() {
    let plan = plan(Capabilities::intel_pt());
    let run = alone(&traced(), &plan);
    let order: Vec<u32> = run.trace.events.iter().map(|e| e.candidates[0].0).collect();
    assert_eq!(order, [1, 2, 3]);
    let positions: Vec<u32> = run.trace.events.iter().map(|e| e.position).collect();
    assert_eq!(positions, [0, 1, 2]);
    assert_eq!(run.failing_thread, Some(ThreadIndex(0)));
    assert!(run.counted.contains(&(ThreadIndex(0), StatementId(3), 4)));
    let ran: Vec<u32> = executed(&run, &plan).keys().map(|id| id.0).collect();
    assert_eq!(ran, [1, 2, 3]);
}

#[test]
fn a_whole_trace_says_what_did_not_happen() {
    let plan = plan(Capabilities::intel_pt());
    let everywhere = Placement {
        places: vec![1, 1],
        partial: Vec::new(),
    };
    let answer = |traced: &TracedRun, placement: &Placement, predictor: &Predictor| {
        observe(&alone(traced, &plan), &plan, placement).answer(predictor)
    };
    let whole = traced();
    assert_eq!(answer(&whole, &everywhere, &branch(2, 0)), Answer::Held);
    assert_eq!(answer(&whole, &everywhere, &branch(2, 1)), Answer::NotHeld);
    assert_eq!(answer(&whole, &everywhere, &branch(4, 0)), Answer::NotHeld);
    // A branch that became no jump can be neither.
    let nowhere = Placement {
        places: vec![1, 0],
        partial: Vec::new(),
    };
    assert_eq!(answer(&whole, &nowhere, &branch(4, 0)), Answer::Unobserved);
    // With a gap only what was seen is known.
    let gap = TracedRun {
        complete: false,
        ..traced()
    };
    assert_eq!(answer(&gap, &everywhere, &branch(2, 0)), Answer::Held);
    assert_eq!(answer(&gap, &everywhere, &branch(2, 1)), Answer::Unobserved);
}

/// A run whose hooks recorded a read of 1 at each of two times, and of 3.
fn hooked() -> DecodedRun {
    let event = |(position, id, at): (u32, u32, u64)| TraceEvent {
        thread: ThreadIndex(0),
        position,
        candidates: vec![StatementId(id)],
        kind: EventKind::Read,
        address: None,
        location: None,
        value: None,
        passed: Vec::new(),
        when: Interval {
            earliest: Tsc(at),
            latest: Tsc(at),
        },
        source: Source::Probe(SiteId(0)),
    };
    DecodedRun {
        agent: sketch_model::AgentId("agent".into()),
        trace: ExecutionTrace {
            run: RunId("r".into()),
            execution: Execution::Tracked(VARIANT),
            failed: false,
            events: [(0, 1, 90), (1, 1, 101), (2, 3, 108)].map(event).into(),
            incomplete: Vec::new(),
            gaps: Vec::new(),
        },
        weight: 1.0,
        threads: vec![RunThread {
            index: ThreadIndex(0),
            tid: 7,
        }],
        failing_thread: None,
        holes: vec![Hole {
            thread: ThreadIndex(0),
            before: 2,
        }],
        missing: false,
        passed: Passed {
            complete: true,
            ..Passed::default()
        },
        thinned: Vec::new(),
        unseen_calls: Default::default(),
        freed: None,
        watch: WatchCoverage::default(),
        by_trace: false,
        counted: Vec::new(),
    }
}

#[test]
fn beside_hooks_it_adds_what_they_did_not_see_where_it_belongs() {
    let mut run = hooked();
    add_trace(&mut run, &traced(), &plan(Capabilities::intel_pt()));
    let order: Vec<u32> = run.trace.events.iter().map(|e| e.candidates[0].0).collect();
    assert_eq!(order, [1, 1, 2, 3]);
    assert_eq!(run.trace.events[2].source, Source::Trace);
    // The hole still lies before the record of 3.
    assert_eq!(run.holes[0].before, 3);
    assert!(run.by_trace && run.passed.complete);
}

#[test]
fn hooks_do_not_vouch_for_branches_that_have_none() {
    let plan = plan(Capabilities::intel_pt());
    let mut run = hooked();
    run.holes.clear();
    add_trace(&mut run, &TracedRun::default(), &plan);
    let placement = Placement {
        places: vec![1, 1],
        partial: Vec::new(),
    };
    let observed = observe(&run, &plan, &placement);
    assert_eq!(observed.answer(&branch(2, 0)), Answer::Unobserved);
}
