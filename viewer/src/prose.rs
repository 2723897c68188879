//! Sentences that all surfaces share: provenance, limits, the meaning of figures.

use crate::facts;
use crate::numbers::{count, counted, rate};
use sketch_model::{FailureSketch, Gap, SketchPredictor};

/// What the figures of the predictor table mean.
pub const FIGURES: &str = "Precision: of the runs in which it held, the share that failed. \
    Recall: of the runs that failed, the share in which it held. In brackets: 95% intervals. \
    F weighs precision over recall (β = 0.5). p: the chance of a separation this good by luck, \
    corrected for all predictors tested and all looks taken. ★ best of its class.";

/// Where the figures come from, as label and fact.
pub fn provenance(sketch: &FailureSketch) -> Vec<(&'static str, String)> {
    let p = &sketch.provenance;
    let mut facts = vec![
        (
            "Compared",
            format!(
                "{} failing and {} successful runs of the tracked build",
                count(p.failing_runs),
                count(p.successful_runs)
            ),
        ),
        (
            "All runs",
            format!(
                "{}, of which {} failed",
                count(p.all_runs),
                count(p.all_failures)
            ),
        ),
        (
            "Failure rate",
            format!(
                "{} without hooks (P), {} with them (P′)",
                rate(p.untracked_failure_rate),
                rate(p.tracked_failure_rate)
            ),
        ),
        (
            "Tracking",
            format!(
                "σ = {}, iteration {}, of {} in the static slice",
                p.sigma,
                p.iteration,
                counted(u64::from(p.slice_statements), "statement")
            ),
        ),
        (
            "Tested",
            format!(
                "{}, {}",
                counted(p.predictors_tested, "predictor"),
                counted(p.looks, "look")
            ),
        ),
        ("Control flow", p.control_flow.clone()),
        ("Tier", p.capabilities.to_string()),
        ("Privacy", p.privacy.clone()),
        (
            "Drawn run",
            match &p.drawn_run {
                Some(run) => run.to_string(),
                None => "none: no failing run has been tracked yet".to_owned(),
            },
        ),
        ("Build", sketch.build.to_string()),
    ];
    let names = |list: &[sketch_model::LocationName]| {
        let names: Vec<String> = list.iter().map(ToString::to_string).collect();
        names.join(", ")
    };
    if !p.watched.is_empty() {
        facts.push(("Watched", names(&p.watched)));
    }
    if !p.promoted.is_empty() {
        facts.push((
            "No longer watched",
            format!(
                "{}: hooks now record every access; 1 run in 16 still checks",
                names(&p.promoted)
            ),
        ));
    }
    if let Some(coverage) = p.coverage.filter(|_| p.paused_runs > 0) {
        facts.push((
            "Coverage",
            format!(
                "recording was on for {} of the time; the governor paused it in {} to bound its \
                 cost",
                rate(Some(coverage)),
                counted(p.paused_runs, "run")
            ),
        ));
    }
    let idle = facts::idle_threads(sketch);
    if !idle.is_empty() {
        let names: Vec<String> = idle
            .iter()
            .map(|t| format!("{} (tid {})", t.role, t.tid))
            .collect();
        facts.push((
            "Not drawn",
            format!("threads without a step: {}", names.join(", ")),
        ));
    }
    facts
}

/// What was lost, refused or not followed, and what the sketch itself leaves open.
pub fn gaps(sketch: &FailureSketch) -> Vec<String> {
    let mut gaps: Vec<String> = sketch.gaps.iter().map(Gap::to_string).collect();
    if sketch
        .steps
        .iter()
        .any(|s| s.values.iter().any(|v| !v.exact))
    {
        gaps.push(
            "Values marked ≈ were read again after the access: another thread may have written \
             in between."
                .to_owned(),
        );
    }
    if sketch.steps.iter().any(|s| !s.unordered_with.is_empty()) {
        gaps.push(
            "Steps marked ∥ have no proven order with the steps that they name; which of them is \
             drawn first is arbitrary."
                .to_owned(),
        );
    }
    if gaps.is_empty() {
        gaps.push("Nothing was reported lost, refused or not followed.".to_owned());
    }
    gaps
}

/// What the counts of a predictor do not show.
pub fn predictor_notes(predictor: &SketchPredictor) -> Vec<String> {
    let support = predictor.score.support;
    let mut notes = Vec::new();
    if support.failing_unobserved + support.successful_unobserved > 0 {
        notes.push(format!(
            "Not observable in {} failing and {} successful runs, which count neither way.",
            count(support.failing_unobserved),
            count(support.successful_unobserved)
        ));
    }
    match predictor.same_runs {
        0 => {}
        1 => notes.push("One more predictor held in exactly the same runs.".to_owned()),
        n => notes.push(format!(
            "{n} more predictors held in exactly the same runs."
        )),
    }
    notes
}
