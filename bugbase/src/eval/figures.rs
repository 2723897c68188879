//! What one diagnosis says about itself, as a row of figures. Pure.
//!
//! Everything is read from the sketch that the server gave and from the bug's
//! folder; a figure that is not there is absent, never zero.

use crate::corpus::bug::{Bug, Group, IdealStatement, Nature};
use crate::corpus::expected::{best_predictors, fits_one, is_expected};
use crate::eval::accuracy::{Element, accuracy, computed};
use crate::eval::cost::Cost;
use crate::eval::diagnosis::{Diagnosis, Ending, GOOD_F, Seen};
use crate::eval::stages::{Stage, Techniques, stages, techniques};
use anyhow::Result;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::time::Duration;

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Figures {
    pub bug: String,
    pub program: String,
    pub of_the_paper: bool,
    /// A real program with the fault put back.
    pub real: bool,
    pub sequential: bool,
    pub source_lines: usize,
    pub ideal_statements: usize,
    /// What became of it, in words.
    pub verdict: String,
    /// The best predictor of a class is one that the folder names.
    pub expected: bool,
    pub settled: bool,
    pub seconds: f64,
    pub slice_statements: Option<u64>,
    pub sketch_statements: Option<usize>,
    pub relevance: Option<f64>,
    pub ordering: Option<f64>,
    pub accuracy: Option<f64>,
    pub sigma: Option<u64>,
    pub iteration: Option<u64>,
    /// Failures after the first, tracked or not.
    pub recurrences: Option<u64>,
    /// Runs of the last tracked build, which the ranking rests on.
    pub failing_used: Option<u64>,
    pub successful_used: Option<u64>,
    pub all_runs: Option<u64>,
    pub untracked_failure_rate: Option<f64>,
    pub tracked_failure_rate: Option<f64>,
    pub title: Option<String>,
    /// The best of each class, in words.
    pub best: Vec<BestOfClass>,
    /// F of the best of all.
    pub best_f: Option<f64>,
    /// Points of the whole slice at which something could be recorded.
    pub slice_points: Option<u64>,
    /// The share of time for which recording was on.
    pub coverage: Option<f64>,
    pub cost: Option<Cost>,
    /// Whether the stated cause is absent from the fixed program, in words.
    pub fixed: Option<String>,
    pub stages: Vec<Stage>,
    pub techniques: Option<Techniques>,
    /// Which of the repetitions it is, from 1.
    pub repetition: usize,
}

/// What is known of a diagnosis beside its last sketch.
#[derive(Default)]
pub struct Beside {
    pub seen: Vec<Seen>,
    /// The slice as the server gave it.
    pub slice: Value,
    pub cost: Option<Cost>,
    pub fixed: Option<String>,
}

/// The best predictor of its class.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct BestOfClass {
    pub class: String,
    pub f: f64,
    pub sentence: String,
    pub expected: bool,
}

pub fn figures(bug: &Bug, ending: &Ending, beside: &Beside, took: Duration) -> Result<Figures> {
    let lines = bug.sources()?.iter().map(|(_, t)| t.lines().count()).sum();
    let mut row = Figures {
        bug: bug.name.clone(),
        program: bug.program.clone(),
        of_the_paper: bug.group == Group::Paper,
        real: bug.group == Group::Real,
        sequential: bug.nature == Nature::Sequential,
        source_lines: lines,
        ideal_statements: bug.ideal.statements.len(),
        seconds: took.as_secs_f64(),
        ..Figures::default()
    };
    if let Some(diagnosis) = ending.diagnosis() {
        from_sketch(&mut row, bug, diagnosis);
        let ideal = ideal_elements(bug);
        row.stages = stages(&beside.seen, &ideal);
        row.techniques = techniques(&beside.slice, &diagnosis.sketch, &ideal);
        let entries = beside.slice["entries"].as_array();
        row.slice_points = entries.map(|entries| {
            let points = entries
                .iter()
                .filter_map(|entry| entry["points"].as_array());
            points.map(|points| points.len() as u64).sum()
        });
        row.cost = beside.cost.clone();
        row.fixed = beside.fixed.clone();
    }
    row.settled = matches!(ending, Ending::Settled(_));
    row.verdict = verdict(&row, ending);
    Ok(row)
}

fn verdict(row: &Figures, ending: &Ending) -> String {
    match ending {
        Ending::Settled(_) if row.expected => "as expected".into(),
        Ending::Settled(_) => "settled on another predictor".into(),
        Ending::GivenUp(_, reason) => {
            let good = row.best_f.is_some_and(|f| f >= GOOD_F);
            let found = match (row.expected, good) {
                (true, true) => "expected predictor, not settled",
                (true, false) => "expected predictor, weak",
                (false, true) => "another predictor, not settled",
                (false, false) => "no good predictor",
            };
            format!("{found}: {reason}")
        }
    }
}

fn from_sketch(row: &mut Figures, bug: &Bug, diagnosis: &Diagnosis) {
    let sketch = &diagnosis.sketch;
    let provenance = &sketch["provenance"];
    let elements = computed(sketch);
    let near = accuracy(&elements, &ideal_elements(bug));
    row.sketch_statements = Some(elements.len());
    row.relevance = Some(near.relevance);
    row.ordering = Some(near.ordering);
    row.accuracy = Some(near.overall());
    row.expected = is_expected(&bug.ideal.predictors, sketch);
    row.slice_statements = provenance["slice_statements"].as_u64();
    row.sigma = provenance["sigma"].as_u64();
    row.iteration = provenance["iteration"].as_u64();
    row.failing_used = provenance["failing_runs"].as_u64();
    row.successful_used = provenance["successful_runs"].as_u64();
    row.recurrences = Some(diagnosis.campaign.failures.saturating_sub(1));
    row.all_runs = Some(diagnosis.campaign.runs);
    row.untracked_failure_rate = provenance["untracked_failure_rate"].as_f64();
    row.tracked_failure_rate = provenance["tracked_failure_rate"].as_f64();
    row.coverage = provenance["coverage"].as_f64();
    row.title = sketch["title"].as_str().map(str::to_owned);
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    row.best = best_predictors(sketch)
        .map(|best| BestOfClass {
            class: text(&best["class"]),
            f: best["score"]["f_measure"].as_f64().unwrap_or(0.0),
            sentence: text(&best["sentence"]),
            expected: fits_one(&bug.ideal.predictors, best, sketch),
        })
        .collect();
    row.best_f = row.best.iter().map(|best| best.f).max_by(f64::total_cmp);
}

fn ideal_elements(bug: &Bug) -> Vec<Element> {
    let element = |statement: &IdealStatement| Element {
        thread: statement.thread.clone(),
        file: statement.file.clone(),
        line: statement.line,
    };
    bug.ideal.statements.iter().map(element).collect()
}

/// The mean of the figures that are there, and how many those are.
pub fn mean(values: impl Iterator<Item = Option<f64>>) -> Option<(f64, usize)> {
    let there: Vec<f64> = values.flatten().collect();
    let sum: f64 = there.iter().sum();
    (!there.is_empty()).then(|| (sum / there.len() as f64, there.len()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::Campaign;
    use crate::corpus::bug::named;
    use serde_json::json;

    fn diagnosis(sketch: Value) -> Diagnosis {
        let campaign: Campaign = serde_json::from_value(json!({
            "id": 1, "title": "t", "state": "settled", "problem": null, "sigma": 4,
            "iteration": 2, "runs": 90, "failures": 7, "tracked_failing": 3,
            "tracked_successful": 40, "best": {"class": "order", "f_measure": 0.9},
        }))
        .unwrap();
        Diagnosis { campaign, sketch }
    }

    #[test]
    fn what_is_not_known_is_absent() {
        let bug = named("pbzip2").unwrap();
        let ending = Ending::GivenUp(None, "no reason".into());
        let row = figures(&bug, &ending, &Beside::default(), Duration::ZERO).unwrap();
        assert!(row.verdict.ends_with("no reason"), "{}", row.verdict);
        assert_eq!((row.accuracy, row.recurrences), (None, None));
        assert_eq!(row.ideal_statements, 7);
        assert!(row.source_lines > 200 && row.of_the_paper && !row.sequential);
    }

    /// The sketch draws two of the seven ideal statements, in order, and nothing
    /// else.
    #[test]
    fn a_sketch_becomes_a_row() {
        let bug = named("pbzip2").unwrap();
        let step = |thread: u32, id: u32, at: usize| {
            let ideal = &bug.ideal.statements[at];
            json!({"thread": thread, "statement": {"id": id, "text": ideal.text,
                "location": {"file": format!("/src/{}", ideal.file), "line": ideal.line}}})
        };
        let sketch = json!({
            "title": "SIGSEGV in consumer",
            "steps": [step(0, 3, 5), step(2, 5, 6)],
            "predictors": [{"class": "order", "best": true, "sentence": "s",
                "score": {"f_measure": 0.9},
                "predictor": {"order": {"pattern": "WR", "statements": [3, 5],
                    "location": {"field": {"record": "queue", "field": "mut"}}}}}],
            "provenance": {"slice_statements": 30, "sigma": 4, "iteration": 2,
                "failing_runs": 3, "successful_runs": 40,
                "untracked_failure_rate": 0.08, "tracked_failure_rate": null},
        });
        let ending = Ending::Settled(diagnosis(sketch));
        let row = figures(&bug, &ending, &Beside::default(), Duration::from_secs(9)).unwrap();
        assert_eq!(row.verdict, "as expected");
        assert_eq!(row.relevance, Some(2.0 / 7.0));
        assert_eq!(row.ordering, Some(1.0));
        assert_eq!(row.recurrences, Some(6));
        assert_eq!(row.slice_statements, Some(30));
        assert_eq!(row.tracked_failure_rate, None);
        assert_eq!(row.best_f, Some(0.9));
    }

    #[test]
    fn means_are_over_what_is_there() {
        let values = [Some(1.0), None, Some(0.5)];
        assert_eq!(mean(values.into_iter()), Some((0.75, 2)));
        assert_eq!(mean([None].into_iter()), None);
    }
}
