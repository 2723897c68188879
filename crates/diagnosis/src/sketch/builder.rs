//! Builds the failure sketch: the picture and the words, from a ranking and one
//! failing run.
//!
//! The drawn run gives the steps (see [`super::steps`]); the ranking gives the
//! marks: the best predictor of each class, if it separates the runs better than
//! "they all fail" would, makes its statements root causes, and the best order
//! predictor becomes arrows between the steps that realise it. Before a tracked
//! run has failed, the slice alone is drawn, nearest statements only, every step
//! marked as static.
//!
//! Of the statements that ran, those are drawn that explain the predictors (see
//! [`super::explanation`]); while no predictor is good, those nearest to the
//! failure. Deliberately absent: statements that did not run in the drawn run.
//! What was never tracked is in the slice, not here.

use super::abort_message;
use super::earlier_writes;
use super::explanation::{self, causes, explanation};
use super::sentences::{self, Names};
use super::steps::{self, Step, Subject};
use super::values;
use crate::evidence::decoded_run::DecodedRun;
use crate::evidence::order::Evidence;
use crate::evidence::roles;
use crate::predictors::occurrence;
use crate::ranking::stop_rule::{best_overall, is_good, is_significant};
use sketch_model::{
    BuildId, CampaignId, Emphasis, FailureKind, FailureSketch, Gap, LastWords, LocationName,
    OrderArrow, PointKind, PredictorClass, Provenance, RankedPredictor, Ranking, Schema,
    SketchPredictor, SketchStep, SketchThread, Slice, SourceLocation, Statement, StatementId,
    ThreadIndex, TrackingPlan,
};
use std::collections::{BTreeMap, BTreeSet};

/// How many predictors of a class the sketch lists.
const PREDICTORS_SHOWN: usize = 5;
/// How many statements a sketch of the slice alone shows.
const STATIC_STEPS: usize = 16;
/// How many statements of the slice may be drawn while nothing explains them.
const NEAREST_DRAWN: usize = 24;

/// The failure in words.
#[derive(Clone, Copy, Debug)]
pub struct FailureWords<'a> {
    pub kind: &'a FailureKind,
    /// The statement that failed.
    pub statement: &'a Statement,
    /// The failing stack, innermost first, as "function (file:line)".
    pub stack: &'a [String],
    /// The call that led into the failing function.
    pub caller: Option<&'a Statement>,
    /// What the program said when it aborted.
    pub said: Option<&'a LastWords>,
}

/// Everything that a sketch is made of.
#[derive(Clone, Copy)]
pub struct SketchInputs<'a> {
    pub campaign: CampaignId,
    pub version: u32,
    pub build: &'a BuildId,
    /// The program's file name.
    pub program: &'a str,
    pub failure: FailureWords<'a>,
    pub slice: &'a Slice,
    pub plan: Option<&'a TrackingPlan>,
    pub ranking: &'a Ranking,
    /// The failing run to draw, best one in which the best order predictor held;
    /// `None` before one was tracked.
    pub drawn: Option<&'a DecodedRun>,
    /// Statements that neither slice nor plan hold (found by watchpoints).
    pub other_statements: &'a [Statement],
    pub provenance: &'a Provenance,
    /// What was lost before decoding; gaps of slice and drawn run are added.
    pub gaps: &'a [Gap],
    pub settled: bool,
}

/// Builds the sketch.
pub fn build(inputs: SketchInputs<'_>) -> FailureSketch {
    let statements = all_statements(&inputs);
    let threads = match inputs.drawn {
        Some(run) => roles::roles(run, inputs.slice),
        None => static_threads(inputs.slice),
    };
    let names = Names {
        roles: statement_roles(&inputs, &threads),
        statements,
        locks: locks(&inputs),
    };
    let predictors = shown_predictors(inputs.ranking, &names);
    let mut gaps = gathered_gaps(&inputs);
    let (steps, arrows) = match inputs.drawn {
        Some(run) => drawn_steps(&inputs, run, &names, &predictors),
        None => (static_steps(&inputs, &threads, &mut gaps), Vec::new()),
    };
    let shown: BTreeSet<ThreadIndex> = steps.iter().map(|s| s.thread).collect();
    gaps.extend(undrawn_threads(&inputs, &shown));
    let statement = inputs.failure.statement;
    FailureSketch {
        schema: Schema::default(),
        campaign: inputs.campaign,
        version: inputs.version,
        build: inputs.build.clone(),
        program: inputs.program.to_owned(),
        title: format!(
            "{} in {} ({})",
            inputs.failure.kind, statement.function, statement.location
        ),
        summary: summary(&inputs, &names),
        said: inputs.failure.said.and_then(abort_message::in_one_line),
        settled: inputs.settled,
        stack: inputs.failure.stack.to_vec(),
        threads: threads
            .into_iter()
            .filter(|t| shown.contains(&t.index))
            .collect(),
        steps,
        arrows,
        predictors,
        provenance: inputs.provenance.clone(),
        gaps,
    }
}

fn locks(inputs: &SketchInputs<'_>) -> BTreeSet<StatementId> {
    let sites = inputs.plan.into_iter().flat_map(|plan| &plan.sites);
    let taking = sites.filter(|site| matches!(site.kind, PointKind::Sync(op) if op.takes()));
    taking.map(|site| site.statement).collect()
}

fn all_statements(inputs: &SketchInputs<'_>) -> BTreeMap<StatementId, Statement> {
    let planned = inputs
        .plan
        .into_iter()
        .flat_map(TrackingPlan::all_statements);
    let sliced = inputs.slice.entries.iter().map(|e| &e.statement);
    let others = inputs.other_statements.iter();
    let failing = std::iter::once(inputs.failure.statement);
    others
        .chain(planned)
        .chain(sliced)
        .chain(failing)
        .map(|s| (s.id, s.clone()))
        .collect()
}

/// By the slice where it knows, else by who ran it in the drawn run.
fn statement_roles(
    inputs: &SketchInputs<'_>,
    threads: &[SketchThread],
) -> BTreeMap<StatementId, String> {
    let mut ran: BTreeMap<StatementId, BTreeSet<String>> = BTreeMap::new();
    for event in inputs.drawn.iter().flat_map(|run| &run.trace.events) {
        let thread = threads.iter().find(|t| t.index == event.thread);
        if let (Some(statement), Some(thread)) = (event.statement(), thread) {
            let role = thread.role.split(" #").next().unwrap_or(&thread.role);
            ran.entry(statement).or_default().insert(role.to_owned());
        }
    }
    for entry in inputs.slice.entries.iter().filter(|e| !e.roles.is_empty()) {
        ran.insert(entry.statement.id, entry.roles.iter().cloned().collect());
    }
    ran.into_iter()
        .filter_map(|(id, names)| roles::joined(names.iter()).map(|role| (id, role)))
        .collect()
}

fn shown_predictors(ranking: &Ranking, names: &Names) -> Vec<SketchPredictor> {
    let mut shown: BTreeMap<PredictorClass, usize> = BTreeMap::new();
    let mut predictors = Vec::new();
    for ranked in &ranking.predictors {
        let count = shown.entry(ranked.class).or_default();
        *count += 1;
        // What holds in successful runs as often explains nothing; the best of
        // a class is listed even so, to show how good the best is.
        if *count == 1 || (*count <= PREDICTORS_SHOWN && separates(ranked)) {
            predictors.push(SketchPredictor {
                class: ranked.class,
                predictor: ranked.predictor.clone(),
                sentence: sentences::sentence(ranked, names),
                score: ranked.score,
                best: *count == 1,
                same_runs: u32::try_from(ranked.same_runs.len()).unwrap_or(u32::MAX),
            });
        }
    }
    predictors
}

/// Whether it does better than saying of every run that it fails.
fn separates(ranked: &RankedPredictor) -> bool {
    let support = ranked.score.support;
    let held = support.failing_true + support.successful_true;
    let all = support.failing_observed() + support.successful_observed();
    // failing_true / held > failing_observed / all, in whole numbers
    u128::from(support.failing_true) * u128::from(all)
        > u128::from(support.failing_observed()) * u128::from(held)
}

fn drawn_steps(
    inputs: &SketchInputs<'_>,
    run: &DecodedRun,
    names: &Names,
    predictors: &[SketchPredictor],
) -> (Vec<SketchStep>, Vec<OrderArrow>) {
    let evidence = Evidence::new(run);
    let named = named_predictors(inputs);
    // Where memory was freed and used, nothing else tells more of the order.
    let of_order = |class| named.iter().find(|p| p.class == class);
    let order = of_order(PredictorClass::Lifetime).or_else(|| of_order(PredictorClass::Order));
    let pattern = order
        .and_then(|p| occurrence(&evidence, &p.predictor))
        .unwrap_or_default();
    let causes: BTreeSet<StatementId> = named
        .iter()
        .filter(|p| p.class != PredictorClass::Order)
        .flat_map(|p| p.predictor.statements().iter().chain(p.predictor.causes()))
        .copied()
        .collect();
    let relevant = relevant(inputs, &named);
    let origins = earlier_writes::origins(&evidence, &pattern, &causes);
    let subject = Subject {
        failing: inputs.failure.statement.id,
        pattern: &pattern,
        origins: &origins,
        causes: &causes,
        relevant: &relevant,
        part: &|access| explanation::part(inputs.slice, inputs.failure.statement.id, access),
        caller: inputs.failure.caller.map(|s| s.id),
        functions: &|id| names.statements.get(&id).map(|s| s.function.as_str()),
    };
    let chosen = steps::choose(&evidence, &subject);
    let unordered = steps::unordered(&evidence, &chosen);
    let emphasis = |step: &Step| {
        let realises = step.events.iter().any(|e| pattern.contains(e));
        if step.failing {
            Emphasis::Failing
        } else if realises || causes.contains(&step.statement) {
            Emphasis::RootCause
        } else {
            Emphasis::Context
        }
    };
    let drawn = (1..).zip(chosen.iter().zip(unordered));
    let sketch_steps = drawn
        .map(|(number, (step, unordered_with))| SketchStep {
            number,
            thread: step.thread,
            statement: statement(names, step.statement),
            values: values::values(&evidence, &step.events),
            emphasis: emphasis(step),
            times: step.times,
            unordered_with,
            discovered: inputs.slice.entry(step.statement).is_none(),
            static_only: step.events.is_empty(),
        })
        .collect();
    let position = order.and_then(|order| {
        let mut shown = predictors.iter();
        shown.position(|p| p.predictor == order.predictor)
    });
    let arrows = match position {
        Some(predictor) => arrows(&chosen, &pattern, predictor as u32),
        None => Vec::new(),
    };
    (sketch_steps, arrows)
}

/// The predictors that the drawing is about: the causes, or else whatever
/// separates best so far.
fn named_predictors<'a>(inputs: &SketchInputs<'a>) -> Vec<&'a RankedPredictor> {
    let causes = causes(inputs.ranking);
    if !causes.is_empty() {
        return causes;
    }
    let beside = beside(inputs);
    let classes = PredictorClass::ALL.into_iter();
    let best = classes.filter_map(|c| inputs.ranking.best(c));
    best.filter(|p| {
        let statements = p.predictor.statements();
        separates(p) && (is_significant(p) || !statements.iter().any(|s| beside.contains(s)))
    })
    .collect()
}

/// Hooked for order or control flow, not tracked: drawn only if it matters.
fn beside(inputs: &SketchInputs<'_>) -> BTreeSet<StatementId> {
    let beside = inputs.plan.map_or(&[][..], |plan| &plan.beside);
    beside.iter().map(|s| s.id).collect()
}

/// The statements that are drawn if they ran: what explains the predictors that
/// are good, or else what is nearest to the failure.
fn relevant(inputs: &SketchInputs<'_>, named: &[&RankedPredictor]) -> BTreeSet<StatementId> {
    let failing = inputs.failure.statement.id;
    let caller = inputs.failure.caller.map(|s| s.id);
    let good = named.iter().filter(|p| is_good(p));
    let explaining = explanation(inputs.slice, failing, caller, good.copied());
    if !explaining.is_empty() {
        return explaining;
    }
    let beside = beside(inputs);
    let nearest = inputs.slice.entries.iter().map(|e| e.statement.id);
    let tracked = nearest.filter(|id| !beside.contains(id));
    tracked.take(NEAREST_DRAWN).collect()
}

fn arrows(steps: &[Step], pattern: &[usize], predictor: u32) -> Vec<OrderArrow> {
    let step_of = |event: usize| {
        let numbered = (1u32..).zip(steps);
        let mut holding = numbered.filter(|(_, s)| s.events.contains(&event));
        holding.next().map(|(number, _)| number)
    };
    pattern
        .windows(2)
        .filter_map(|pair| {
            Some(OrderArrow {
                from_step: step_of(pair[0])?,
                to_step: step_of(pair[1])?,
                predictor,
            })
        })
        .collect()
}

fn statement(names: &Names, id: StatementId) -> Statement {
    let known = names.statements.get(&id).cloned();
    known.unwrap_or_else(|| Statement {
        id,
        function: "?".to_owned(),
        location: SourceLocation {
            file: "?".to_owned(),
            line: 0,
        },
        text: String::new(),
    })
}

/// One column for each role that the slice names, `main` first.
fn static_threads(slice: &Slice) -> Vec<SketchThread> {
    let mut roles: BTreeSet<(bool, String)> = BTreeSet::new();
    for entry in &slice.entries {
        let role = static_role(&entry.roles);
        roles.insert((role != "main", role));
    }
    (0..)
        .zip(roles)
        .map(|(index, (_, role))| SketchThread {
            index: ThreadIndex(index),
            created_at: roles::created_at(&role, slice),
            role,
            tid: 0,
        })
        .collect()
}

fn static_role(roles: &[String]) -> String {
    roles::joined(roles.iter()).unwrap_or_else(|| "unknown thread".to_owned())
}

fn static_steps(
    inputs: &SketchInputs<'_>,
    threads: &[SketchThread],
    gaps: &mut Vec<Gap>,
) -> Vec<SketchStep> {
    let entries = &inputs.slice.entries;
    let failing = inputs.failure.statement.id;
    let hidden = entries.len().saturating_sub(STATIC_STEPS);
    if hidden > 0 {
        let count = hidden as u64;
        gaps.push(Gap::StatementsNotShown { count });
    }
    let nearest = entries.iter().take(STATIC_STEPS).rev();
    (1..)
        .zip(nearest)
        .map(|(number, entry)| {
            let role = static_role(&entry.roles);
            let thread = threads.iter().find(|t| t.role == role);
            SketchStep {
                number,
                thread: thread.map_or(ThreadIndex(0), |t| t.index),
                statement: entry.statement.clone(),
                values: Vec::new(),
                emphasis: if entry.statement.id == failing {
                    Emphasis::Failing
                } else {
                    Emphasis::Context
                },
                times: 0,
                unordered_with: Vec::new(),
                discovered: false,
                static_only: true,
            }
        })
        .collect()
}

fn summary(inputs: &SketchInputs<'_>, names: &Names) -> String {
    let provenance = inputs.provenance;
    match best_overall(inputs.ranking).filter(|p| separates(p)) {
        Some(best) if is_significant(best) => sentences::sentence(best, names),
        Some(best) => format!(
            "{} Not yet significant (p = {:.2} after correction).",
            sentences::sentence(best, names),
            best.score.corrected_p
        ),
        None => format!(
            "Tracking σ = {}: no predictor yet ({} failing, {} successful runs so far)",
            provenance.sigma, provenance.failing_runs, provenance.successful_runs
        ),
    }
}

fn undrawn_threads(inputs: &SketchInputs<'_>, shown: &BTreeSet<ThreadIndex>) -> Option<Gap> {
    let events = inputs.drawn.iter().flat_map(|run| &run.trace.events);
    let active: BTreeSet<ThreadIndex> = events
        .filter(|e| e.statement().is_some())
        .map(|e| e.thread)
        .collect();
    let count = active.difference(shown).count() as u64;
    (count > 0).then_some(Gap::ThreadsNotDrawn { count })
}

fn gathered_gaps(inputs: &SketchInputs<'_>) -> Vec<Gap> {
    let mut gaps: Vec<Gap> = inputs.gaps.to_vec();
    gaps.extend(inputs.slice.gaps.iter().cloned());
    let unwatched = inputs.plan.iter().flat_map(|p| p.unwatched.iter().cloned());
    let locations: Vec<LocationName> = unwatched.collect();
    if !locations.is_empty() {
        gaps.push(Gap::NoWatchpointFree { locations });
    }
    if let Some(run) = inputs.drawn {
        gaps.extend(run.trace.gaps.iter().cloned());
        let events = run.trace.events.iter();
        let count = events.filter(|e| e.candidates.len() > 1).count() as u64;
        if count > 0 {
            gaps.push(Gap::HitsAmbiguous { count });
        }
    }
    // The same loss may be reported by a record and by its decoder.
    let mut told: Vec<Gap> = Vec::with_capacity(gaps.len());
    for gap in gaps {
        if !told.contains(&gap) {
            told.push(gap);
        }
    }
    told
}
