//! What is recorded of branches is what happened: compared with a record of the
//! same run that has nothing to do with ours.
//!
//! Small programs: the program is compiled without optimisation, without us, and
//! stepped instruction by instruction (`common/stepper.rs`). Its sequence of
//! lines says which way each branch went, in order. Larger ones: every branch of
//! the program compiled without optimisation has a hook, where a branch is still
//! what was written; optimised builds must tell the same.

use crate::common::stepper;
use crate::common::{Built, Ran, build, run, run_counting_all};
use sketch_model::{PointKind, SiteId, TrackingPlan};
use std::collections::{BTreeMap, BTreeSet};

const LOOPS: &str = include_str!("../programs/loops.c");
const WORKBENCH: &str = include_str!("../programs/workbench.c");

/// Line and column of a branch, in its function.
type Branch = (String, u32, u32);
type Outcomes = BTreeMap<Branch, Vec<u64>>;

fn branches(program: &Built, file: &str) -> TrackingPlan {
    let statements = program.program.statements().iter();
    let own = statements.filter(|s| s.location.file.ends_with(file));
    let functions: BTreeSet<&str> = own.map(|s| s.function.as_str()).collect();
    let functions: Vec<&str> = functions.into_iter().collect();
    let mut plan = program.plan(&functions);
    plan.sites.retain(|s| s.kind == PointKind::Branch);
    for (number, site) in plan.sites.iter_mut().enumerate() {
        site.id = SiteId(number as u32);
    }
    plan
}

fn branch_of(plan: &TrackingPlan, site: u32) -> Branch {
    let site = plan.site(SiteId(site)).expect("a site of the plan");
    let statement = plan.all_statements().find(|s| s.id == site.statement);
    let statement = statement.expect("a statement of the plan");
    let line = statement.location.line;
    (statement.function.clone(), line, site.column)
}

/// By branch, in the order of the only thread.
fn recorded(plan: &TrackingPlan, ran: &Ran) -> Outcomes {
    assert!(ran.events.len() <= 1, "one thread");
    let mut outcomes = Outcomes::new();
    for event in ran.events.iter().flatten() {
        let branch = branch_of(plan, event.site);
        outcomes.entry(branch).or_default().push(event.value);
    }
    outcomes
}

/// How often each branch went which way, by the account, which forgets nothing.
fn counted(plan: &TrackingPlan, ran: &Ran) -> BTreeMap<Branch, BTreeMap<u64, u64>> {
    let mut counts: BTreeMap<Branch, BTreeMap<u64, u64>> = BTreeMap::new();
    let region = ran.region.as_deref().expect("recording");
    for slot in &region.threads {
        assert_eq!(slot.edges_full, 0, "the account has room for the test");
        for edge in slot.edges.iter().filter(|e| e.site != 0) {
            let ways = counts.entry(branch_of(plan, edge.site - 1)).or_default();
            *ways.entry(edge.successor.into()).or_default() += edge.count;
        }
    }
    counts
}

/// Labels by line, and the labels that branches lead to.
fn annotations(source: &str) -> (BTreeMap<u32, [u32; 2]>, BTreeSet<u32>) {
    let after = |text: &str, mark: &str| -> Vec<String> {
        let found = text.split(mark).nth(1).unwrap_or_default();
        let words = found.split("//").next().unwrap_or_default();
        words.split_whitespace().map(str::to_owned).collect()
    };
    let lines = || {
        source
            .lines()
            .enumerate()
            .map(|(n, text)| (n as u32 + 1, text))
    };
    let labels: BTreeMap<String, u32> = lines()
        .skip(3)
        .flat_map(|(n, text)| after(text, "//:").into_iter().map(move |label| (label, n)))
        .collect();
    let branches: BTreeMap<u32, [u32; 2]> = lines()
        .skip(3)
        .filter_map(|(n, text)| {
            let to = after(text, "//?");
            let [yes, no] = to.as_slice() else {
                return None;
            };
            Some((n, [labels.get(yes).copied().unwrap_or(n + 1), labels[no]]))
        })
        .collect();
    let targets = branches.values().flatten().copied().collect();
    (branches, targets)
}

fn is_subsequence(short: &[u64], long: &[u64]) -> bool {
    let mut rest = long.iter();
    short
        .iter()
        .all(|outcome| rest.any(|other| other == outcome))
}

#[test]
fn outcomes_are_those_of_a_run_that_was_stepped() {
    let (lines, _) = annotations(LOOPS);
    assert!(lines.len() >= 20, "the annotations are read");
    let mut truth: BTreeMap<u32, Vec<u64>> = BTreeMap::new();
    for (from, to) in stepper::lines(LOOPS, &["an argument"]).iter() {
        if let Some([yes, no]) = lines.get(from) {
            let outcome = if to == yes {
                0
            } else if to == no {
                1
            } else {
                panic!("line {from} led to line {to}, not to {yes} or {no}")
            };
            truth.entry(*from).or_default().push(outcome);
        }
    }
    assert!(truth.len() >= 20, "the program was stepped: {truth:?}");
    let levels: [(&str, &str, [usize; 2]); 6] = [
        ("-O0", "-finline", [22, 22]),
        ("-O1", "-finline", [14, 5]),
        ("-O2", "-finline", [11, 4]),
        ("-O3", "-finline", [11, 4]),
        ("-O1", "-fno-inline", [16, 12]),
        ("-O2", "-fno-inline", [14, 10]),
    ];
    for (level, inlining, least) in levels {
        let flags = [level, inlining, "-fPIE"];
        let program = build(&[("loops.c", LOOPS)], &flags, &["-pie"]);
        let plan = branches(&program, "loops.c");
        let tracked = instrumenter::track(&program.build, &plan).unwrap();
        let ran = run(
            &program.write("tracked", &tracked.deployed),
            &["an argument"],
            true,
        );
        let (mut placed, mut whole, mut exact) = (0, 0, 0);
        let recorded = recorded(&plan, &ran);
        for site in &plan.sites {
            let branch = branch_of(&plan, site.id.0);
            let line = branch.1;
            let seen = recorded.get(&branch).cloned().unwrap_or_default();
            let happened = truth.get(&line).cloned().unwrap_or_default();
            let what = format!("{level}: {branch:?}: {seen:?} recorded, {happened:?} happened");
            if !tracked.placement.is_placed(site.id) {
                assert!(seen.is_empty(), "{what}");
                continue;
            }
            placed += 1;
            assert!(is_subsequence(&seen, &happened), "{what}");
            if tracked.placement.tells_all(site.id) {
                whole += 1;
                let set = |outcomes: &[u64]| outcomes.iter().copied().collect::<BTreeSet<_>>();
                assert_eq!(set(&seen), set(&happened), "{what}");
            }
            exact += u32::from(seen == happened);
            if level == "-O0" {
                assert_eq!(seen, happened, "{what}");
            }
        }
        eprintln!(
            "{level} {inlining}: of {} branches {placed} recorded, {whole} of them wholly, {exact} outcome by outcome",
            plan.sites.len()
        );
        assert!(
            placed >= least[0] && whole >= least[1],
            "fewer than there were"
        );
    }
}

/// Counts by branch and outcome.
type Counts = BTreeMap<Branch, BTreeMap<u64, u64>>;

/// The plan in parts whose edges the account of a thread has room for.
fn parts(whole: &TrackingPlan) -> Vec<TrackingPlan> {
    let part = |sites: &[sketch_model::Site]| {
        let mut plan = whole.clone();
        plan.sites = sites.to_vec();
        for (number, site) in plan.sites.iter_mut().enumerate() {
            site.id = SiteId(number as u32);
        }
        plan
    };
    whole.sites.chunks(40).map(part).collect()
}

#[test]
fn optimised_builds_tell_what_an_unoptimised_one_tells() {
    let runs: Vec<[String; 2]> = (1..13)
        .map(|seed: u32| [seed.to_string(), (seed * 37 % 11).to_string()])
        .collect();
    let mut truth: Vec<Counts> = vec![Counts::new(); runs.len()];
    for level in ["-O0", "-O1", "-O2", "-O3", "-Os"] {
        let program = build(&[("workbench.c", WORKBENCH)], &[level, "-fPIE"], &["-pie"]);
        let whole = branches(&program, "workbench.c");
        let (mut missed, mut wrong) = (Vec::new(), Vec::new());
        let (mut placed, mut wholly, mut places) = (0, 0, 0);
        for plan in parts(&whole) {
            let tracked = match instrumenter::track(&program.build, &plan) {
                Ok(tracked) => tracked,
                Err(error) => panic!("{level}: {error}"),
            };
            let placement = &tracked.placement;
            let count =
                |fits: &dyn Fn(SiteId) -> bool| plan.sites.iter().filter(|s| fits(s.id)).count();
            placed += count(&|s| placement.is_placed(s));
            wholly += count(&|s| placement.tells_all(s));
            places += placement.places.iter().sum::<u32>();
            let file = program.write("tracked", &tracked.deployed);
            for (number, arguments) in runs.iter().enumerate() {
                let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
                let ran = run_counting_all(&file, &arguments);
                assert_eq!(ran.status.code(), Some(0), "{}", ran.stderr);
                let counts = counted(&plan, &ran);
                if level == "-O0" {
                    truth[number].extend(counts);
                    continue;
                }
                for site in &plan.sites {
                    let branch = branch_of(&plan, site.id.0);
                    let empty = BTreeMap::new();
                    let seen = counts.get(&branch).unwrap_or(&empty);
                    let happened = truth[number].get(&branch).unwrap_or(&empty);
                    let too_often = |(outcome, count): (&u64, &u64)| {
                        *count > happened.get(outcome).copied().unwrap_or(0)
                    };
                    if seen.iter().any(too_often) {
                        wrong.push((branch.clone(), seen.clone(), happened.clone()));
                    }
                    if placement.tells_all(site.id) && !seen.keys().eq(happened.keys()) {
                        missed.push((branch, seen.clone(), happened.clone()));
                    }
                }
            }
        }
        let all = whole.sites.len();
        eprintln!(
            "{level}: of {all} branches {placed} recorded in {places} places, {wholly} of them wholly"
        );
        assert!(
            3 * placed >= all && 4 * wholly >= all,
            "fewer than there were"
        );
        wrong.dedup_by_key(|w| w.0.clone());
        missed.dedup_by_key(|w| w.0.clone());
        assert!(
            wrong.is_empty(),
            "{level}: recorded and did not happen: {wrong:?}"
        );
        assert!(
            missed.is_empty(),
            "{level}: happened and was not recorded: {missed:?}"
        );
    }
}
