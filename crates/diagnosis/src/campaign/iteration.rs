//! What one iteration of a campaign has shown so far, and what follows from it: a
//! verdict and a sketch.
//!
//! [`Iteration`] is a function of the plans, the builds and the runs added to it, in
//! any order except for which failing runs are kept for drawing.

use super::failure::{LocatedFailure, is_abort};
use super::promotion::Findings;
use super::traced_runs::StoredTrace;
use super::{BuildCounts, Campaign, Verdict};
use crate::evidence::decoded_run::DecodedRun;
use crate::evidence::executed::executed;
use crate::evidence::intel_pt::{TracedInput, add_trace, of_trace};
use crate::evidence::trace::decode;
use crate::predictors::{self, Answer, Hooks, Observations, observe_hooked};
use crate::ranking::population::Population;
use crate::ranking::stop_rule::{self, FAR_ENOUGH, IterationResult, Power, best_overall, is_good};
use crate::ranking::{Nearness, rank};
use crate::sketch::builder::{FailureWords, SketchInputs, build};
use crate::sketch::explanation::{causes, explanation};
use formats::address_map::AddressMap;
use sketch_model::{
    BestPredictor, CampaignId, Capabilities, Execution, FailureKind, FailureSketch, Gap,
    LocationName, Placement, PlanCounts, PredictorClass, Privacy, Provenance, Ranking, RunRecord,
    Slice, Statement, StatementId, TracedRun, TrackingPlan, VariantRef,
};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Failing runs that are kept for drawing one of them.
const DRAWABLE_KEPT: usize = 8;

/// A statement of a build with its text.
pub type Describe = Arc<dyn Fn(StatementId) -> Option<Statement> + Send + Sync>;

/// What one iteration has shown.
pub struct Iteration {
    slice: Slice,
    describe: Describe,
    /// By tracked build: runs of different ones are never pooled.
    tracked: BTreeMap<VariantRef, Stratum>,
    /// P itself, where traces tell of it.
    original: Option<Stratum>,
    discovered: BTreeSet<StatementId>,
    findings: Findings,
    drawable: Vec<Drawable>,
    governed: Governed,
    /// What the last look could say.
    last_power: Power,
}

/// What the governor left of the runs.
#[derive(Default)]
struct Governed {
    runs: u64,
    paused: u64,
    /// The sum of the runs' coverages.
    coverage: f64,
    /// What the runs' machines let out of them.
    privacy: BTreeSet<Privacy>,
    /// By which secrets values were disguised.
    privacy_keys: BTreeSet<String>,
}

/// The runs of one tracked build, or the traced ones of P.
struct Stratum {
    plan: TrackingPlan,
    code: Arc<AddressMap>,
    population: Population,
    failing: u64,
    successful: u64,
    hooks: Hooks,
    /// Tracked statements that are known to have run in some run.
    ran: BTreeSet<StatementId>,
}

impl Stratum {
    fn new(plan: TrackingPlan, placement: &Placement, code: Arc<AddressMap>) -> Stratum {
        Stratum {
            hooks: predictors::hooks(&plan, placement),
            plan,
            code,
            population: Population::default(),
            failing: 0,
            successful: 0,
            ran: BTreeSet::new(),
        }
    }
}

struct Drawable {
    execution: Execution,
    run: DecodedRun,
    observations: Observations,
    capabilities: Capabilities,
}

/// What a look at the population says, and the sketch that shows it.
pub struct Look {
    pub verdict: Verdict,
    pub sketch: FailureSketch,
}

impl Iteration {
    pub fn new(slice: Slice, describe: Describe) -> Iteration {
        Iteration {
            slice,
            describe,
            tracked: BTreeMap::new(),
            original: None,
            discovered: BTreeSet::new(),
            findings: Findings::default(),
            drawable: Vec::new(),
            governed: Governed::default(),
            last_power: Power::Nothing,
        }
    }

    /// Adds a tracked build of this iteration; its runs may follow.
    pub fn add_plan(
        &mut self,
        variant: VariantRef,
        plan: TrackingPlan,
        placement: &Placement,
        code: Arc<AddressMap>,
    ) {
        self.tracked
            .insert(variant, Stratum::new(plan, placement, code));
    }

    /// Adds P itself; its traced runs may follow. The plan says what of their traces is
    /// looked at.
    pub fn add_original(
        &mut self,
        plan: TrackingPlan,
        placement: &Placement,
        code: Arc<AddressMap>,
    ) {
        self.original = Some(Stratum::new(plan, placement, code));
    }

    /// All of them, P last.
    fn strata(&self) -> impl Iterator<Item = &Stratum> {
        self.tracked.values().chain(&self.original)
    }

    fn stratum(&self, execution: Execution) -> Option<&Stratum> {
        match execution {
            Execution::Tracked(variant) => self.tracked.get(&variant),
            Execution::Traced { .. } => self.original.as_ref(),
            Execution::Original | Execution::Local { .. } => None,
        }
    }

    fn stratum_mut(&mut self, execution: Execution) -> Option<&mut Stratum> {
        match execution {
            Execution::Tracked(variant) => self.tracked.get_mut(&variant),
            Execution::Traced { .. } => self.original.as_mut(),
            Execution::Original | Execution::Local { .. } => None,
        }
    }

    /// Adds a run of one of this iteration's tracked builds, with what its Intel
    /// PT says.
    pub fn add(&mut self, record: &RunRecord, traced: Option<&TracedRun>) {
        let variant = record.execution.tracked();
        let Some(stratum) = variant.and_then(|it| self.tracked.get(&it)) else {
            return;
        };
        let plan = &stratum.plan;
        let Some(mut run) = decode(record, plan, &stratum.code) else {
            return;
        };
        let untraced = TracedRun {
            gaps: vec![Gap::TraceMissing],
            ..TracedRun::default()
        };
        if let Some(traced) = traced.or(plan.traces_branches().then_some(&untraced)) {
            add_trace(&mut run, traced, plan);
        }
        self.findings.add(record, &run, plan);
        self.governed.runs += 1;
        self.governed.paused += u64::from(!record.tracking.pauses.is_empty());
        self.governed.coverage += record.tracking.coverage();
        self.governed.privacy.insert(record.privacy);
        let key = record.secret_fingerprint();
        self.governed.privacy_keys.extend(key);
        self.count(run, record.capabilities.clone());
    }

    /// Adds a run of P by its trace, which counts for a campaign.
    pub fn add_traced(&mut self, campaign: CampaignId, stored: &StoredTrace) {
        let Some(stratum) = &self.original else {
            return;
        };
        let input = TracedInput {
            run: &stored.run,
            agent: &stored.agent,
            campaign,
            failed: stored.failed,
            weight: stored.weight,
            failing_tid: stored.failing_tid,
            traced: &stored.traced,
        };
        let mut run = of_trace(&input, &stratum.plan);
        run.trace.gaps.extend(stored.gaps.iter().cloned());
        self.governed.privacy.insert(stored.privacy);
        self.count(run, stored.capabilities.clone());
    }

    fn count(&mut self, run: DecodedRun, capabilities: Capabilities) {
        let execution = run.trace.execution;
        let Some(stratum) = self.stratum_mut(execution) else {
            return;
        };
        let failed = run.trace.failed;
        match failed {
            true => stratum.failing += 1,
            false => stratum.successful += 1,
        }
        let plan = &stratum.plan;
        let observations = observe_hooked(&run, plan, &stratum.hooks);
        stratum.population.add(&observations);
        stratum.ran.extend(executed(&run, plan).into_keys());
        let discovered = run.discovered(plan);
        self.discovered.extend(discovered);
        if failed {
            if self.drawable.len() == DRAWABLE_KEPT {
                self.drawable.remove(0);
            }
            self.drawable.push(Drawable {
                execution,
                run,
                observations,
                capabilities,
            });
        }
    }

    /// How much the plan with the most telling runs can say.
    fn power(&self, campaign: &Campaign) -> Power {
        let tested = self.strata().map(|s| s.population.tested());
        let tested = tested.sum();
        let of = |s: &Stratum| {
            stop_rule::power(s.failing, s.successful, tested, campaign.learned.looks + 1)
        };
        self.strata().map(of).max().unwrap_or(Power::Nothing)
    }

    /// Whether runs since the last look raised what can be said.
    pub fn can_say_more(&self, campaign: &Campaign) -> bool {
        self.power(campaign) > self.last_power
    }

    /// Looks at the population: ranks, judges, and draws the next sketch. `None` if no
    /// statement is known to have failed.
    pub fn look(&mut self, campaign: &Campaign, counts: BuildCounts) -> Option<Look> {
        let failure = campaign.identity.failure.as_ref()?;
        let nearness = match &failure.kind {
            kind if is_abort(kind) => Nearness::of_ending(&self.slice),
            FailureKind::Hang => Nearness::of_hang(&self.slice),
            _ => Nearness::of_slice(&self.slice),
        };
        let populations: Vec<&Population> = self.strata().map(|s| &s.population).collect();
        let ranking = rank(&populations, campaign.learned.looks + 1, &nearness);
        let result = IterationResult::of(campaign.iteration(), &ranking);
        let mut history = campaign.learned.history.clone();
        history.push(result.clone());
        // Traces of P are read for the whole slice, whatever σ is.
        let by_trace = self.tracked.is_empty();
        let at_the_end = by_trace || campaign.wider().is_none();
        let far_enough = at_the_end || campaign.sigma() >= FAR_ENOUGH;
        let power = self.power(campaign);
        self.last_power = power;
        let settled = power == Power::Proof && stop_rule::settled(&history, far_enough);
        let enough = match power {
            Power::Nothing => false,
            Power::Hint => !at_the_end && !stop_rule::promising(&history, far_enough),
            Power::Proof => true,
        };
        let sketch = self.sketch(campaign, failure, &ranking, counts, settled);
        Some(Look {
            verdict: Verdict {
                enough,
                settled,
                result,
                best: best_of(&ranking, &sketch),
                discovered: self.discovered.iter().copied().collect(),
                explaining: self.explaining(failure, &ranking),
                promotions: self.findings.promotions(&campaign.learned.promotions),
            },
            sketch,
        })
    }

    /// What the next plan should track to explain the best predictors.
    fn explaining(&self, failure: &LocatedFailure, ranking: &Ranking) -> Vec<StatementId> {
        let best = best_overall(ranking).into_iter();
        let named = best.chain(causes(ranking));
        let caller = failure.callers.first().map(|s| s.id);
        let all = explanation(&self.slice, failure.failing.id, caller, named);
        all.into_iter().collect()
    }

    fn sketch(
        &self,
        campaign: &Campaign,
        failure: &LocatedFailure,
        ranking: &Ranking,
        counts: BuildCounts,
        settled: bool,
    ) -> FailureSketch {
        let drawn = self.to_draw(ranking);
        let stratum = drawn.and_then(|drawn| self.stratum(drawn.execution));
        let stratum = stratum.or_else(|| self.strata().next());
        let freeing = ranking.predictors.iter();
        let freeing = freeing.filter(|p| p.class == PredictorClass::Lifetime);
        let freeing = freeing.flat_map(|p| p.predictor.statements());
        let statements = self.discovered.iter().chain(freeing);
        let others: Vec<Statement> = statements.filter_map(|id| (self.describe)(*id)).collect();
        let mut provenance = provenance(campaign, &self.slice, counts);
        provenance.predictors_tested = ranking.tested;
        provenance.looks = ranking.looks;
        let governed = &self.governed;
        provenance.coverage = (governed.runs > 0).then(|| governed.coverage / governed.runs as f64);
        provenance.paused_runs = governed.paused;
        let plans = || self.strata().map(|s| &s.plan);
        let usual = plans().filter(|plan| !plan.audit);
        let watched: BTreeSet<&LocationName> = usual.flat_map(|plan| &plan.watched).collect();
        provenance.watched = watched.into_iter().cloned().collect();
        let promoted: BTreeSet<&LocationName> = plans().flat_map(|plan| &plan.promoted).collect();
        provenance.promoted = promoted.into_iter().cloned().collect();
        if governed.privacy.iter().any(|level| *level != Privacy::Full) {
            let levels = governed.privacy.iter().map(ToString::to_string);
            provenance.privacy = levels.collect::<Vec<_>>().join(" or ");
            if governed.privacy_keys.len() > 1 {
                provenance.privacy += &format!(
                    "; values were disguised with {} secrets, and those of different secrets \
                     cannot be compared",
                    governed.privacy_keys.len()
                );
            }
        }
        if let Some(drawn) = drawn {
            provenance.capabilities = drawn.capabilities.clone();
            if drawn.run.by_trace {
                provenance.control_flow = "Intel PT".to_owned();
            }
            provenance.drawn_run = Some(drawn.run.trace.run.clone());
        }
        draw(Drawing {
            campaign,
            failure,
            slice: &self.slice,
            plan: stratum.map(|s| &s.plan),
            ranking,
            drawn: drawn.map(|d| &d.run),
            others: &others,
            provenance: &provenance,
            settled,
            gaps: self.gaps(campaign),
        })
    }

    /// What the reader must know of how the plans were run.
    fn gaps(&self, campaign: &Campaign) -> Vec<Gap> {
        let mut gaps = Vec::new();
        if campaign.learned.watching_given_up {
            gaps.push(Gap::WatchingGivenUp);
        }
        if campaign.learned.traced.left_out() > 0 {
            let count = campaign.learned.traced.left_out();
            gaps.push(Gap::TracedRunsNotKept { count });
        }
        if self.tracked.len() > 1 {
            let plans = self.tracked.iter().map(|(variant, s)| PlanCounts {
                plan: variant.plan,
                failed: s.failing,
                runs: s.failing + s.successful,
            });
            let plans = plans.collect();
            gaps.push(Gap::PlansCountedApart { plans });
        }
        let unwatched = |s: &Stratum| s.plan.unwatched.iter().cloned().collect();
        let missed: Option<BTreeSet<LocationName>> =
            self.tracked.values().map(unwatched).reduce(|a, b| &a & &b);
        let missed = missed.unwrap_or_default();
        let watching = |s: &Stratum| !s.plan.watched.is_empty();
        if !missed.is_empty() && self.tracked.values().any(watching) {
            let locations = missed.into_iter().collect();
            gaps.push(Gap::LocationsNotWatched { locations });
        }
        // Of P all statements of the slice are looked at, and many never run.
        let original = self.original.iter().filter(|_| self.tracked.is_empty());
        let tracked = self.tracked.values().chain(original);
        let tracked = tracked.flat_map(|s| &s.plan.statements);
        let tracked: BTreeSet<StatementId> = tracked.map(|s| s.id).collect();
        let ran = |id: &&StatementId| self.strata().any(|s| s.ran.contains(*id));
        let idle = tracked.len() - tracked.iter().filter(ran).count();
        if idle > 0 {
            gaps.push(Gap::StatementsNeverRan {
                idle: idle as u64,
                tracked: tracked.len() as u64,
            });
        }
        gaps
    }

    /// The failing run that shows most: one in which the best order (or else
    /// the best predictor) occurred, with the fewest holes, the earliest of those.
    fn to_draw(&self, ranking: &Ranking) -> Option<&Drawable> {
        let order = ranking.best(PredictorClass::Order);
        let lifetime = ranking
            .best(PredictorClass::Lifetime)
            .filter(|best| is_good(best));
        let best = lifetime.or(order).or_else(|| best_overall(ranking));
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
    slice: &Slice,
    counts: BuildCounts,
) -> Option<FailureSketch> {
    let failure = campaign.identity.failure.as_ref()?;
    Some(draw(Drawing {
        campaign,
        failure,
        slice,
        plan: None,
        ranking: &Ranking::default(),
        drawn: None,
        others: &[],
        provenance: &provenance(campaign, slice, counts),
        settled: false,
        gaps: Vec::new(),
    }))
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
    settled: bool,
    gaps: Vec<Gap>,
}

fn draw(drawing: Drawing<'_>) -> FailureSketch {
    let campaign = drawing.campaign;
    let mut gaps = drawing.gaps;
    let count = campaign.counts().otherwise;
    if count > 0 {
        gaps.push(Gap::FailedOtherwise { count });
    }
    build(SketchInputs {
        campaign: campaign.id(),
        version: campaign.learned.sketch_version + 1,
        build: &campaign.identity.build,
        program: &campaign.identity.program,
        failure: FailureWords {
            kind: &drawing.failure.kind,
            statement: &drawing.failure.failing,
            stack: &drawing.failure.stack(),
            caller: drawing.failure.callers.first(),
            said: drawing.failure.said.as_ref(),
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
    let tracked = campaign.counts();
    Provenance {
        failing_runs: tracked.failing + campaign.learned.traced.failing(),
        successful_runs: tracked.successful + campaign.learned.traced.successful(),
        all_runs: summary.runs,
        all_failures: summary.failures,
        sigma: campaign.sigma(),
        iteration: campaign.iteration(),
        slice_statements: slice.entries.len() as u32,
        predictors_tested: 0,
        looks: 0,
        control_flow: "inline branch recorder".into(),
        capabilities: Capabilities::hooks(),
        privacy: "values as recorded".into(),
        drawn_run: None,
        untracked_failure_rate: rate(campaign.learned.untracked_failures, counts.untracked_runs),
        tracked_failure_rate: rate(
            tracked.failing,
            tracked.failing + tracked.successful + tracked.otherwise,
        ),
        coverage: None,
        paused_runs: 0,
        watched: Vec::new(),
        promoted: Vec::new(),
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
