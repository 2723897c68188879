//! The one place where the service calls the pure diagnosis.
//!
//! [`Tracking`] holds what one iteration of a campaign has shown so far. It is
//! a function of the plan, the build and the runs added to it, in any order
//! except for which failing runs are kept for drawing.

use super::campaign::{Campaign, Verdict};
use super::storage::{BuildCounts, IterationRecord};
use super::symbolize::LocatedFailure;
use super::workshop::BuildCode;
use crate::diagnosis::stop_rule::best_overall;
use crate::diagnosis::{
    self, Answer, DecodedRun, FailureWords, IterationResult, Nearness, Observations, Population,
    SketchInputs, Wanted,
};
use sketch_model::{
    BestPredictor, FailureSketch, Predictor, PredictorClass, Provenance, Ranking, RunRecord, Slice,
    Statement, StatementId, Tier, TrackingPlan,
};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Failing runs that are kept for drawing one of them.
const DRAWABLE_KEPT: usize = 8;

/// What one iteration has shown.
pub struct Tracking {
    slice: Slice,
    iteration: IterationRecord,
    code: Arc<dyn BuildCode>,
    population: Population,
    /// All predictors met so far: how many are tested.
    predictors: BTreeSet<Predictor>,
    discovered: BTreeSet<StatementId>,
    drawable: Vec<Drawable>,
    governed: Governed,
}

/// What the governor left of the runs.
#[derive(Default)]
struct Governed {
    runs: u64,
    paused: u64,
    /// The sum of the runs' coverages.
    coverage: f64,
}

struct Drawable {
    run: DecodedRun,
    observations: Observations,
    tier: Tier,
}

/// What a look at the population says, and the sketch that shows it.
pub struct Look {
    pub verdict: Verdict,
    pub sketch: FailureSketch,
}

impl Tracking {
    pub fn new(slice: Slice, iteration: IterationRecord, code: Arc<dyn BuildCode>) -> Tracking {
        Tracking {
            slice,
            iteration,
            code,
            population: Population::default(),
            predictors: BTreeSet::new(),
            discovered: BTreeSet::new(),
            drawable: Vec::new(),
            governed: Governed::default(),
        }
    }

    /// Adds a run of this iteration's tracked build.
    pub fn add(&mut self, record: &RunRecord) {
        let plan = &self.iteration.plan;
        let Some(run) = diagnosis::decode(record, plan, self.code.code_map()) else {
            return;
        };
        let observations = diagnosis::observe(&run, plan, &self.iteration.placement);
        self.population.add(&observations);
        self.predictors.extend(observations.held.iter().cloned());
        self.discovered.extend(run.discovered(plan));
        self.governed.runs += 1;
        self.governed.paused += u64::from(!record.tracking.pauses.is_empty());
        self.governed.coverage += record.tracking.coverage();
        if record.failed() {
            if self.drawable.len() == DRAWABLE_KEPT {
                self.drawable.remove(0);
            }
            self.drawable.push(Drawable {
                run,
                observations,
                tier: record.tier,
            });
        }
    }

    /// Whether there are as many runs as the statistics want.
    pub fn enough(&self, campaign: &Campaign) -> bool {
        let Wanted {
            failing,
            successful,
        } = diagnosis::wanted(self.predictors.len() as u64, campaign.looks + 1);
        campaign.tracked_failing >= failing && campaign.tracked_successful >= successful
    }

    /// Looks at the population: ranks, judges, and draws sketch `version`.
    pub fn look(
        &self,
        campaign: &Campaign,
        failure: &LocatedFailure,
        version: u32,
        counts: BuildCounts,
    ) -> Look {
        let nearness = Nearness::of_slice(&self.slice);
        let ranking = diagnosis::rank(&self.population, campaign.looks + 1, &nearness);
        let enough = self.enough(campaign);
        let result = IterationResult::of(campaign.iteration, &ranking);
        let mut history = campaign.history.clone();
        history.push(result.clone());
        let settled = enough && diagnosis::settled(&history);
        let sketch = self.sketch(campaign, failure, &ranking, version, counts, settled);
        Look {
            verdict: Verdict {
                enough,
                settled,
                result,
                best: best_of(&ranking, &sketch),
                discovered: self.discovered.iter().copied().collect(),
            },
            sketch,
        }
    }

    fn sketch(
        &self,
        campaign: &Campaign,
        failure: &LocatedFailure,
        ranking: &Ranking,
        version: u32,
        counts: BuildCounts,
        settled: bool,
    ) -> FailureSketch {
        let drawn = self.to_draw(ranking);
        let statements = self.discovered.iter();
        let others: Vec<Statement> = statements
            .filter_map(|id| self.code.statement(*id))
            .collect();
        let mut provenance = provenance(campaign, &self.slice, counts);
        provenance.predictors_tested = ranking.tested;
        provenance.looks = ranking.looks;
        let governed = &self.governed;
        provenance.coverage = (governed.runs > 0).then(|| governed.coverage / governed.runs as f64);
        provenance.paused_runs = governed.paused;
        if let Some(drawn) = drawn {
            provenance.tier = drawn.tier;
            provenance.drawn_run = Some(drawn.run.trace.run.clone());
        }
        draw(Drawing {
            campaign,
            failure,
            slice: &self.slice,
            plan: Some(&self.iteration.plan),
            ranking,
            drawn: drawn.map(|d| &d.run),
            others: &others,
            provenance: &provenance,
            version,
            settled,
        })
    }

    /// The failing run that shows most: one in which the best order (or else
    /// the best predictor) occurred, with the fewest holes, the earliest of those.
    fn to_draw(&self, ranking: &Ranking) -> Option<&Drawable> {
        let order = ranking.best(PredictorClass::Order);
        let best = order.or_else(|| best_overall(ranking));
        self.drawable.iter().min_by_key(|drawable| {
            let shows = best
                .map(|best| drawable.observations.answer(&best.predictor))
                .is_some_and(|answer| answer == Answer::Held);
            (!shows, drawable.run.holes.len())
        })
    }
}

/// The sketch of the slice alone, before any tracked run.
pub fn first_sketch(
    campaign: &Campaign,
    failure: &LocatedFailure,
    slice: &Slice,
    version: u32,
    counts: BuildCounts,
) -> FailureSketch {
    draw(Drawing {
        campaign,
        failure,
        slice,
        plan: None,
        ranking: &Ranking::default(),
        drawn: None,
        others: &[],
        provenance: &provenance(campaign, slice, counts),
        version,
        settled: false,
    })
}

/// What the two kinds of sketches differ in.
struct Drawing<'a> {
    campaign: &'a Campaign,
    failure: &'a LocatedFailure,
    slice: &'a Slice,
    plan: Option<&'a TrackingPlan>,
    ranking: &'a Ranking,
    drawn: Option<&'a DecodedRun>,
    others: &'a [Statement],
    provenance: &'a Provenance,
    version: u32,
    settled: bool,
}

fn draw(drawing: Drawing<'_>) -> FailureSketch {
    let campaign = drawing.campaign;
    let mut gaps = Vec::new();
    if campaign.tracked_otherwise > 0 {
        gaps.push(format!(
            "{} tracked runs failed in another way and count neither as failing nor as successful",
            campaign.tracked_otherwise
        ));
    }
    diagnosis::build(SketchInputs {
        campaign: campaign.id,
        version: drawing.version,
        build: &campaign.build,
        program: &campaign.program,
        failure: FailureWords {
            kind: &drawing.failure.kind,
            statement: &drawing.failure.failing,
            stack: &drawing.failure.stack(),
        },
        slice: drawing.slice,
        plan: drawing.plan,
        ranking: drawing.ranking,
        drawn: drawing.drawn,
        other_statements: drawing.others,
        provenance: drawing.provenance,
        gaps: &gaps,
        settled: drawing.settled,
    })
}

fn provenance(campaign: &Campaign, slice: &Slice, counts: BuildCounts) -> Provenance {
    let rate = |failures: u64, runs: u64| (runs > 0).then(|| failures as f64 / runs as f64);
    let summary = campaign.summary(counts);
    Provenance {
        failing_runs: campaign.tracked_failing,
        successful_runs: campaign.tracked_successful,
        all_runs: summary.runs,
        all_failures: summary.failures,
        sigma: campaign.sigma,
        iteration: campaign.iteration,
        slice_statements: slice.entries.len() as u32,
        predictors_tested: 0,
        looks: 0,
        control_flow: "inline branch recorder".into(),
        tier: Tier::Inline,
        privacy: "values as recorded".into(),
        drawn_run: None,
        untracked_failure_rate: rate(campaign.untracked_failures, counts.untracked_runs),
        tracked_failure_rate: rate(
            campaign.tracked_failing,
            campaign.tracked_failing + campaign.tracked_successful + campaign.tracked_otherwise,
        ),
        coverage: None,
        paused_runs: 0,
    }
}

/// The best predictor, in the words of the sketch that lists it.
fn best_of(ranking: &Ranking, sketch: &FailureSketch) -> Option<BestPredictor> {
    let best = best_overall(ranking)?;
    let mut listed = sketch.predictors.iter();
    let words = listed.find(|p| p.predictor == best.predictor)?;
    Some(BestPredictor {
        class: best.class,
        sentence: words.sentence.clone(),
        precision: best.score.precision,
        recall: best.score.recall,
        f_measure: best.score.f_measure,
    })
}
