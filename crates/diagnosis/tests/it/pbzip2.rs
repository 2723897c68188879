//! The pbzip2 failure from traces to sketch, in values alone: the store of NULL
//! by main precedes the consumer's read in failing runs and follows it in
//! successful ones.

use crate::support::*;
use diagnosis::{
    DecodedRun, FailureWords, IterationResult, Nearness, Population, SketchInputs, build, observe,
    rank, settled,
};
use sketch_model::Gap;
use sketch_model::*;
use std::collections::BTreeSet;
use test_support::records::segmentation_fault;

const LOCK: u32 = 50;
const UNLOCK: u32 = 60;
const INIT: u32 = 80;
const CLEAR: u32 = 88;

fn text(id: u32) -> &'static str {
    match id {
        LOCK => "pthread_mutex_lock(fifo->mut);",
        UNLOCK => "pthread_mutex_unlock(fifo->mut);",
        INIT => "q->mut = malloc(sizeof(*q->mut));",
        CLEAR => "fifo->mut = NULL;",
        _ => "",
    }
}

fn slice(ids: &[u32]) -> Slice {
    let entry = |(distance, id): (u32, &u32)| SliceEntry {
        statement: statement(*id, text(*id)),
        distance,
        why: None,
        roles: vec![if *id < 70 { "consumer" } else { "main" }.to_owned()],
        points: Vec::new(),
    };
    Slice {
        schema: Slice::SCHEMA,
        build: BuildId("b1".to_owned()),
        entries: (0..).zip(ids).map(entry).collect(),
        gaps: Vec::new(),
    }
}

/// Thread A is main, B the consumer that fails, C another consumer.
fn failing_run(id: usize) -> DecodedRun {
    run(
        &format!("f{id}"),
        true,
        "A:W80@10-12=94000000000 B:R50@20-22=94000000000 B:R60@30-32=94000000000 \
         C:R50@21-24=94000000000 C:R60@25-40=94000000000 \
         B:R50@50-52=94000000000 A:W88@60-62=0 B:R60@70-72=0",
    )
}

fn successful_run(id: usize) -> DecodedRun {
    run(
        &format!("s{id}"),
        false,
        "A:W80@10-12=94000000000 B:R50@20-22=94000000000 B:R60@30-32=94000000000 \
         B:R50@50-52=94000000000 B:R60@70-72=94000000000 A:W88@90-92=0",
    )
}

/// A slice all of which is tracked.
fn tracked(ids: &[u32]) -> (Slice, TrackingPlan) {
    (slice(ids), plan(ids))
}

fn population(plan: &TrackingPlan, failing: usize, successful: usize) -> Population {
    let runs = (0..failing).map(failing_run);
    population_of(plan, runs.chain((0..successful).map(successful_run)))
}

fn population_of(plan: &TrackingPlan, runs: impl IntoIterator<Item = DecodedRun>) -> Population {
    let mut population = Population::default();
    for run in runs {
        population.add(&observe(&run, plan, &everything_placed()));
    }
    population
}

fn provenance(sigma: u32, failing: u64, successful: u64) -> Provenance {
    Provenance {
        failing_runs: failing,
        successful_runs: successful,
        all_runs: 100,
        all_failures: failing,
        sigma,
        iteration: 1,
        slice_statements: 4,
        predictors_tested: 0,
        looks: 1,
        control_flow: "inline branch recorder".to_owned(),
        capabilities: Capabilities::watchpoints(),
        privacy: "values".to_owned(),
        drawn_run: None,
        untracked_failure_rate: None,
        tracked_failure_rate: None,
        coverage: None,
        paused_runs: 0,
        watched: Vec::new(),
        promoted: Vec::new(),
    }
}

fn sketch(
    slice: &Slice,
    plan: &TrackingPlan,
    ranking: &Ranking,
    drawn: Option<&DecodedRun>,
    provenance: &Provenance,
) -> FailureSketch {
    let kind = segmentation_fault();
    build(SketchInputs {
        campaign: CampaignId(1),
        version: 2,
        build: &plan.build,
        program: "pbzip2",
        failure: FailureWords {
            kind: &kind,
            statement: &statement(UNLOCK, text(UNLOCK)),
            stack: &["consumer (pbzip2.c:60)".to_owned()],
            caller: None,
            said: None,
        },
        slice,
        plan: Some(plan),
        ranking,
        drawn,
        other_statements: &[statement(CLEAR, text(CLEAR))],
        provenance,
        gaps: &[],
        settled: false,
    })
}

#[test]
fn the_order_of_store_and_read_is_found_and_drawn() {
    let (slice, plan) = tracked(&[UNLOCK, LOCK, CLEAR, INIT]);
    let population = population(&plan, 9, 41);
    let ranking = rank(&[&population], 1, &Nearness::of_slice(&slice));

    let best = ranking.best(PredictorClass::Order).expect("an order");
    assert_eq!(best.predictor, order(OrderPattern::Wr, &[CLEAR, UNLOCK]));
    assert_eq!(best.score.f_measure, 1.0);
    assert!(best.score.corrected_p < 1e-6);
    assert_eq!((best.score.recall_interval.0 * 100.0).round(), 70.0);
    let atomicity = order(OrderPattern::Rwr, &[LOCK, CLEAR, UNLOCK]);
    assert!(best.same_runs.contains(&atomicity), "{:?}", best.same_runs);
    let by_value = ranking.best(PredictorClass::Value).expect("a value");
    assert_eq!(by_value.predictor, value(UNLOCK, ValueShape::Zero));

    let drawn = failing_run(0);
    let sketch = sketch(&slice, &plan, &ranking, Some(&drawn), &provenance(4, 9, 41));
    assert_eq!(sketch.title, "SIGSEGV in consumer (pbzip2.c:60)");
    assert_eq!(
        sketch.summary,
        "In 9 of 9 failing runs `fifo->mut = NULL;` (main, pbzip2.c:88) wrote queue.mut before \
         `pthread_mutex_unlock(fifo->mut);` (consumer, pbzip2.c:60) read it; in 0 of 41 \
         successful runs."
    );
    let roles: Vec<&str> = sketch.threads.iter().map(|t| t.role.as_str()).collect();
    // The other consumer ran nothing of the slice that these two did not.
    assert_eq!(roles, ["main", "consumer"]);

    let [arrow] = sketch.arrows.as_slice() else {
        panic!("one arrow: {:?}", sketch.arrows);
    };
    let step = |number: u32| &sketch.steps[number as usize - 1];
    let (from, to) = (step(arrow.from_step), step(arrow.to_step));
    assert_eq!(from.statement.id, StatementId(CLEAR));
    assert_eq!(from.emphasis, Emphasis::RootCause);
    assert_eq!(
        (from.values[0].of.as_str(), from.values[0].shown.as_str()),
        ("queue.mut", "NULL")
    );
    assert!(from.values[0].written);
    assert_eq!(to.statement.id, StatementId(UNLOCK));
    assert_eq!(
        (to.emphasis, to.thread),
        (Emphasis::Failing, ThreadIndex(1))
    );
    assert_eq!(to.values[0].shown, "NULL");
    assert_eq!(to.times, 2);
    assert_eq!(
        to.number as usize,
        sketch.steps.len(),
        "the failure is last"
    );
    let predictor = &sketch.predictors[arrow.predictor as usize];
    assert!(predictor.best && predictor.class == PredictorClass::Order);

    // What the store replaced is drawn; the lock merely ran.
    let ids: Vec<u32> = sketch.steps.iter().map(|s| s.statement.id.0).collect();
    assert_eq!(ids, [INIT, CLEAR, UNLOCK]);
    assert_eq!(sketch.steps[0].values[0].shown, "0x15e2d62c00");
    // C's unlock (25–40) and B's last lock (50) are ordered; C's lock and INIT are too.
    assert!(sketch.steps.iter().all(|s| s.unordered_with.is_empty()));
    assert!(sketch.steps.iter().all(|s| !s.static_only && !s.discovered));
}

#[test]
fn steps_without_evidence_say_so_on_both_sides() {
    let (slice, plan) = tracked(&[UNLOCK, LOCK, CLEAR, INIT]);
    let drawn = run("f0", true, "A:W88@10-40 B:R50@5 B:R60@20-30");
    let sketch = sketch(
        &slice,
        &plan,
        &Ranking::default(),
        Some(&drawn),
        &provenance(4, 1, 0),
    );
    let found: Vec<(u32, u32, Vec<u32>)> = sketch
        .steps
        .iter()
        .map(|s| (s.number, s.statement.id.0, s.unordered_with.clone()))
        .collect();
    assert_eq!(
        found,
        [(1, LOCK, vec![]), (2, CLEAR, vec![3]), (3, UNLOCK, vec![2])]
    );
    assert!(sketch.arrows.is_empty());
    assert_eq!(
        sketch.summary,
        "Tracking σ = 4: no predictor yet (1 failing, 0 successful runs so far)"
    );
}

#[test]
fn a_store_that_only_a_watchpoint_saw_is_drawn_as_discovered() {
    let (slice, plan) = tracked(&[UNLOCK, LOCK]);
    let failing = |id: u32| {
        run(
            &format!("f{id}"),
            true,
            "B:R50@10-12=7000000 A:W88@12-62=0! B:R60@70-72=0",
        )
    };
    let successful = |id: u32| {
        run(
            &format!("s{id}"),
            false,
            "B:R50@10-12=7000000 B:R60@20-22=7000000 A:W88@30-62=0!",
        )
    };
    let population = population_of(&plan, (0..3).map(failing).chain((0..40).map(successful)));
    let ranking = rank(&[&population], 1, &Nearness::of_slice(&slice));
    let best = ranking.best(PredictorClass::Order).expect("an order");
    assert_eq!(best.predictor, order(OrderPattern::Wr, &[CLEAR, UNLOCK]));
    assert_eq!(best.score.support.successful_false, 40);
    assert!(best.score.corrected_p < 0.01, "{}", best.score.corrected_p);
    let drawn = failing(0);
    assert_eq!(
        drawn.discovered(&plan),
        BTreeSet::from([StatementId(CLEAR)])
    );
    let sketch = sketch(&slice, &plan, &ranking, Some(&drawn), &provenance(2, 3, 40));
    let discovered: Vec<u32> = sketch
        .steps
        .iter()
        .filter(|s| s.discovered)
        .map(|s| s.statement.id.0)
        .collect();
    assert_eq!(discovered, [CLEAR]);
    assert_eq!(sketch.arrows.len(), 1);

    // The same best in two iterations ends the diagnosis.
    let history = [
        IterationResult::of(1, &ranking),
        IterationResult::of(2, &ranking),
    ];
    assert!(settled(&history, false));
    assert!(!settled(&history[..1], false));
}

#[test]
fn before_a_tracked_run_failed_the_slice_is_drawn() {
    let slice = slice(&[UNLOCK, LOCK, CLEAR, INIT]);
    let plan = plan(&[UNLOCK, LOCK]);
    let sketch = sketch(
        &slice,
        &plan,
        &Ranking::default(),
        None,
        &provenance(2, 0, 0),
    );
    let ids: Vec<u32> = sketch.steps.iter().map(|s| s.statement.id.0).collect();
    assert_eq!(ids, [INIT, CLEAR, LOCK, UNLOCK]);
    assert!(sketch.steps.iter().all(|s| s.static_only));
    assert_eq!(sketch.steps[3].emphasis, Emphasis::Failing);
    let roles: Vec<&str> = sketch.threads.iter().map(|t| t.role.as_str()).collect();
    assert_eq!(roles, ["main", "consumer"]);
    assert_eq!(sketch.steps[0].thread, ThreadIndex(0));
    assert_eq!(sketch.steps[3].thread, ThreadIndex(1));
}

#[test]
fn a_failing_statement_without_events_is_still_the_last_step() {
    let (slice, plan) = tracked(&[UNLOCK, LOCK, CLEAR, INIT]);
    let drawn = run("f0", true, "B:R50@5 A:W88@10");
    let sketch = sketch(
        &slice,
        &plan,
        &Ranking::default(),
        Some(&drawn),
        &provenance(4, 1, 0),
    );
    let last = sketch.steps.last().expect("steps");
    assert_eq!(last.statement.id, StatementId(UNLOCK));
    assert_eq!(
        (last.emphasis, last.thread),
        (Emphasis::Failing, ThreadIndex(1))
    );
    assert!(last.static_only);
}

#[test]
fn an_interrupted_increment_is_drawn_as_two_steps() {
    // 60 reads and writes; 88 writes in between: a lost update.
    let (slice, plan) = tracked(&[UNLOCK, CLEAR]);
    let failing = run("f0", true, "B:R60@10=1 A:W88@20=5 B:W60@30=2");
    let successful = run("s0", false, "B:R60@10=1 B:W60@20=2 A:W88@30=5");
    let population = population_of(&plan, [failing.clone(), successful.clone()]);
    let lost_update = order(OrderPattern::Rww, &[UNLOCK, CLEAR, UNLOCK]);
    let mut ranking = rank(&[&population], 1, &Nearness::of_slice(&slice));
    // Two statements are preferred to three; here we look at the three.
    for ranked in &mut ranking.predictors {
        if ranked.same_runs.contains(&lost_update) {
            ranked.predictor = lost_update.clone();
        }
    }
    let sketch = sketch(
        &slice,
        &plan,
        &ranking,
        Some(&failing),
        &provenance(2, 1, 1),
    );
    let steps: Vec<(u32, &str)> = sketch
        .steps
        .iter()
        .map(|s| (s.statement.id.0, s.values[0].shown.as_str()))
        .collect();
    assert_eq!(steps, [(UNLOCK, "1"), (CLEAR, "5"), (UNLOCK, "2")]);
    let arrows: Vec<(u32, u32)> = sketch
        .arrows
        .iter()
        .map(|a| (a.from_step, a.to_step))
        .collect();
    assert_eq!(arrows, [(1, 2), (2, 3)]);
    assert!(
        sketch.summary.contains(
            "`fifo->mut = NULL;` (main, pbzip2.c:88) wrote queue.mut after \
             `pthread_mutex_unlock(fifo->mut);` (consumer, pbzip2.c:60) read it and before the \
             same thread's `pthread_mutex_unlock(fifo->mut);` (consumer, pbzip2.c:60) wrote it"
        ),
        "{}",
        sketch.summary
    );
    assert!(
        sketch
            .summary
            .ends_with("Not yet significant (p = 1.00 after correction).")
    );
}

#[test]
fn unobserved_runs_are_in_the_sentence() {
    let (slice, plan) = tracked(&[UNLOCK, LOCK, CLEAR, INIT]);
    let mut population = population(&plan, 3, 40);
    let unordered = run("s99", false, "B:R60@10-40 A:W88@20-50");
    population.add(&observe(&unordered, &plan, &everything_placed()));
    let ranking = rank(&[&population], 1, &Nearness::of_slice(&slice));
    let drawn = failing_run(0);
    let sketch = sketch(&slice, &plan, &ranking, Some(&drawn), &provenance(4, 3, 41));
    assert!(
        sketch
            .summary
            .contains("; in 0 of 40 successful runs; not observable in 1 successful."),
        "{}",
        sketch.summary
    );
}

#[test]
fn of_many_threads_the_failing_one_and_those_of_the_pattern_are_drawn() {
    let (slice, plan) = tracked(&[UNLOCK, LOCK, CLEAR, INIT]);
    let mut script = String::new();
    for (time, thread) in ('A'..='T').enumerate() {
        script.push_str(&format!("{thread}:R50@{time}=7000000 "));
    }
    let mut failing = run("f0", true, &format!("{script} S:W88@60=0 T:R60@70=0"));
    failing.failing_thread = Some(ThreadIndex(19));
    let successful = run(
        "s0",
        false,
        &format!("{script} T:R60@70=7000000 S:W88@80=0"),
    );
    let population = population_of(&plan, [failing.clone(), successful.clone()]);
    let ranking = rank(&[&population], 1, &Nearness::of_slice(&slice));
    let sketch = sketch(
        &slice,
        &plan,
        &ranking,
        Some(&failing),
        &provenance(4, 1, 1),
    );
    let drawn: Vec<u32> = sketch.threads.iter().map(|t| t.index.0).collect();
    assert_eq!(drawn, [18, 19]);
    assert_eq!(sketch.gaps, [Gap::ThreadsNotDrawn { count: 18 }]);
    assert_eq!(sketch.arrows.len(), 1);
}

#[test]
fn an_order_that_holds_in_all_runs_is_no_root_cause() {
    let (slice, plan) = tracked(&[UNLOCK, LOCK, CLEAR, INIT]);
    let script = "A:W80@10=7000000 B:R60@20=7000000";
    let failing = run("f0", true, script);
    let population = population_of(&plan, [failing.clone(), run("s0", false, script)]);
    let ranking = rank(&[&population], 1, &Nearness::of_slice(&slice));
    let best = ranking.best(PredictorClass::Order).expect("an order");
    assert_eq!(best.predictor, order(OrderPattern::Wr, &[INIT, UNLOCK]));
    let sketch = sketch(
        &slice,
        &plan,
        &ranking,
        Some(&failing),
        &provenance(4, 1, 1),
    );
    assert!(sketch.arrows.is_empty());
    let emphases: Vec<Emphasis> = sketch.steps.iter().map(|s| s.emphasis).collect();
    assert_eq!(emphases, [Emphasis::Context, Emphasis::Failing]);
    assert!(
        sketch
            .summary
            .starts_with("Tracking σ = 4: no predictor yet")
    );
}

#[test]
fn a_threads_role_is_what_its_statements_agree_on() {
    let mut slice = slice(&[UNLOCK, LOCK, CLEAR, INIT]);
    let both = ["main".to_owned(), "consumer".to_owned()];
    // LOCK can be run by both; UNLOCK by consumers, CLEAR by main alone.
    slice.entries[1].roles = both.to_vec();
    let drawn = run(
        "f0",
        true,
        "A:R50@1 B:R50@2 B:R60@3 C:R50@4 D:R50@5 D:W88@6 E:R99@7",
    );
    let roles = diagnosis::evidence::roles::roles(&drawn, &slice);
    let names: Vec<&str> = roles.iter().map(|t| t.role.as_str()).collect();
    // A has the lowest id, so it is main; C is not; D is, by its statements.
    assert_eq!(
        names,
        ["main", "consumer", "consumer #2", "main #2", "thread 4"]
    );
}
