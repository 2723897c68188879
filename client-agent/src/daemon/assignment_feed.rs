//! What the runs of each build are to be, known before they ask.
//!
//! For each build that runs here one thread keeps a question open at the server:
//! "tell me when there is something else to run". What it hears stands until it
//! hears otherwise, and the patch is fetched at once, so that a run that starts
//! gets both from this machine. Which runs stay with P is decided here, by
//! counting. A build that nobody has run for a while is given up.
//!
//! A server that is silent is asked by the waiting thread alone, with growing
//! pauses; runs go on with what was last heard, for a while, and then with the
//! original. None of them waits for it. Servers that answer for single runs only
//! are asked that way, and one answer serves all runs of two seconds.

use super::lock;
use crate::delivery::client::Server;
use crate::error::AgentError;
use crate::patches::backoff::Backoff;
use crate::stderr_log::say;
use sketch_model::{
    Assignment, AssignmentRequest, Assignments, AssignmentsRequest, BuildId, Capabilities,
    ProgramAssignment, Schema, VariantRef,
};
use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

/// Builds with a thread of their own; others are asked about as they come.
const MOST_WATCHED: usize = 32;
const GIVEN_UP_AFTER: Duration = Duration::from_secs(600);
/// How long the server may hold an answer back.
const HELD_BACK_S: u32 = 30;
/// Nobody is asked more often.
const PROMPT: Duration = Duration::from_secs(1);
/// What a server said before it fell silent is good for this long.
const GOOD_FOR: Duration = Duration::from_secs(600);
/// An answer for which no thread waits serves all runs of this time.
const PASSING: Duration = Duration::from_secs(2);
/// Bytes of patches that are kept at hand.
const PATCHES_KEPT: usize = 8 << 20;

type Key = (BuildId, Capabilities);

/// What the server last said about a build.
#[derive(Default)]
struct Known {
    plan: Option<ProgramAssignment>,
    /// Names what was said, where the server names it.
    tag: Option<String>,
    /// Until when it stands.
    good_until: Option<Instant>,
    /// Runs that were told.
    runs: u64,
    /// Why the last question failed, and until when no run asks again.
    silent: Option<(Instant, String)>,
    asked: Option<Instant>,
    /// A thread waits for news of it.
    watched: bool,
}

impl Known {
    fn is_wanted(&self) -> bool {
        self.asked.is_some_and(|at| at.elapsed() < GIVEN_UP_AFTER)
    }

    /// What the next run is to be, if what was heard still stands.
    fn next(&mut self, now: Instant) -> Option<Result<Assignment, AgentError>> {
        if self.good_until.is_none_or(|until| now > until) {
            return None;
        }
        let plan = self.plan.as_ref()?;
        if let Some(problem) = &plan.problem {
            return Some(Err(AgentError::ServerRefused {
                what: "assignments",
                status: 404,
                answer: problem.clone(),
            }));
        }
        let tracked = gets_a_turn(self.runs, plan.tracked_share);
        self.runs = self.runs.wrapping_add(1);
        Some(Ok(Assignment {
            schema: Schema::default(),
            variant: plan.variant.filter(|_| tracked),
            finished: plan.finished,
            expected: plan.expected.clone(),
        }))
    }

    /// Takes down what was said; whether it is something else than before.
    fn heard(&mut self, said: Assignments) -> bool {
        let news = self.tag.as_ref() != Some(&said.tag);
        self.plan = said.programs.into_iter().next();
        self.tag = Some(said.tag);
        self.good_until = Some(Instant::now() + GOOD_FOR);
        self.silent = None;
        news
    }
}

/// Whether run number `number` is among the share: spread evenly, and exact over
/// any stretch of runs.
fn gets_a_turn(number: u64, share: f64) -> bool {
    let before = number as f64 * share;
    (before + share).floor() > before.floor()
}

/// All builds of this machine.
pub struct Plans {
    server: Server,
    builds: Mutex<HashMap<Key, Arc<Mutex<Known>>>>,
    /// Threads that wait for news.
    watching: AtomicUsize,
    /// The last patches, newest last.
    patches: Mutex<Vec<(VariantRef, Arc<Vec<u8>>)>>,
}

impl Plans {
    pub fn new(server: Server) -> Arc<Plans> {
        Arc::new(Plans {
            server,
            builds: Mutex::new(HashMap::new()),
            watching: AtomicUsize::new(0),
            patches: Mutex::new(Vec::new()),
        })
    }

    /// What a run that starts now is to be.
    pub fn assignment(
        self: &Arc<Plans>,
        request: &AssignmentRequest,
    ) -> Result<Assignment, AgentError> {
        let entry = self.entry((request.build.clone(), request.capabilities.clone()));
        // Those who ask about a new build together wait for one answer.
        let mut known = lock(&entry);
        let now = Instant::now();
        known.asked = Some(now);
        if let Some(next) = known.next(now) {
            return next;
        }
        if let Some((until, why)) = &known.silent
            && now < *until
        {
            return Err(AgentError::ServerSilent(why.clone()));
        }
        if let Err(error) = self.ask(request, &mut known) {
            known.silent = Some((Instant::now() + PROMPT, error.to_string()));
            return Err(error);
        }
        if known.tag.is_some() && !known.watched {
            known.watched = self.watch(request, &entry);
        }
        let next = known.next(Instant::now());
        if !known.watched {
            known.good_until = Some(Instant::now() + PASSING);
        }
        next.unwrap_or_else(|| {
            Err(AgentError::ServerAnswer {
                what: "assignments",
                reason: "it does not mention the build".into(),
            })
        })
    }

    /// What is known of a build; of those that nobody runs any more nothing is.
    fn entry(&self, key: Key) -> Arc<Mutex<Known>> {
        let mut builds = lock(&self.builds);
        if !builds.contains_key(&key) {
            builds.retain(|_, entry| match entry.try_lock() {
                Ok(known) => known.watched || known.is_wanted(),
                Err(_) => true,
            });
        }
        builds.entry(key).or_default().clone()
    }

    /// Asks without waiting for news.
    fn ask(&self, request: &AssignmentRequest, known: &mut Known) -> Result<(), AgentError> {
        match self.server.assignments(&about(request, None, 0)) {
            Ok(said) => {
                known.heard(said);
            }
            // It answers for single runs only.
            Err(AgentError::ServerRefused {
                status: 404 | 405, ..
            }) => {
                let single = self.server.assignment(request)?;
                known.plan = Some(ProgramAssignment {
                    build: request.build.clone(),
                    variant: single.variant,
                    finished: single.finished,
                    expected: single.expected,
                    tracked_share: 1.0,
                    canary_share: 1.0,
                    patch: None,
                    problem: None,
                });
                known.good_until = Some(Instant::now() + PASSING);
            }
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// Begins to wait for news of a build; false if there are too many already.
    fn watch(self: &Arc<Plans>, request: &AssignmentRequest, entry: &Arc<Mutex<Known>>) -> bool {
        let mut started = false;
        if self.watching.fetch_add(1, Ordering::AcqRel) < MOST_WATCHED {
            let (plans, entry, request) = (self.clone(), entry.clone(), request.clone());
            let thread = thread::Builder::new()
                .name("plans".into())
                .stack_size(256 << 10)
                .spawn(move || {
                    plans.wait_for_news(&request, &entry);
                    plans.watching.fetch_sub(1, Ordering::AcqRel);
                });
            started = thread.is_ok();
        }
        if !started {
            self.watching.fetch_sub(1, Ordering::AcqRel);
        }
        started
    }

    fn wait_for_news(&self, request: &AssignmentRequest, entry: &Mutex<Known>) {
        let mut backoff = Backoff::new();
        loop {
            let seen = {
                let mut known = lock(entry);
                if !known.is_wanted() {
                    // The next run to ask begins again.
                    *known = Known::default();
                    return;
                }
                known.tag.clone()
            };
            let began = Instant::now();
            match self.server.assignments(&about(request, seen, HELD_BACK_S)) {
                Ok(said) => {
                    self.fetch_ahead(&said);
                    let mut known = lock(entry);
                    if known.silent.is_some() {
                        say("the server answers again");
                    }
                    let news = known.heard(said);
                    drop(known);
                    backoff.answered();
                    // One that holds nothing back must not be asked in a circle.
                    if !news && began.elapsed() < PROMPT {
                        thread::sleep(PROMPT);
                    }
                }
                Err(error) => {
                    let pause = backoff.pause();
                    lock(entry).silent = Some((Instant::now() + pause, error.to_string()));
                    thread::sleep(pause);
                }
            }
        }
    }

    /// Gets the patches of what is new before any run needs them. One that does
    /// not come now is asked for again by the first run that wants it.
    fn fetch_ahead(&self, said: &Assignments) {
        for variant in said.programs.iter().filter_map(|p| p.variant) {
            let _ = self.patch(variant);
        }
    }

    /// The patch of a tracked build, as the server signed it; whoever runs it
    /// verifies it.
    pub fn patch(&self, variant: VariantRef) -> Result<Arc<Vec<u8>>, AgentError> {
        if let Some((_, known)) = lock(&self.patches).iter().find(|(v, _)| *v == variant) {
            return Ok(known.clone());
        }
        let patch = Arc::new(self.server.patch(variant)?);
        let mut patches = lock(&self.patches);
        patches.push((variant, patch.clone()));
        let held = |patches: &[(VariantRef, Arc<Vec<u8>>)]| -> usize {
            patches.iter().map(|(_, patch)| patch.len()).sum()
        };
        while held(&patches) > PATCHES_KEPT {
            patches.remove(0);
        }
        Ok(patch)
    }
}

/// The question about one build.
fn about(request: &AssignmentRequest, seen: Option<String>, wait_s: u32) -> AssignmentsRequest {
    AssignmentsRequest {
        agent: request.agent.clone(),
        capabilities: request.capabilities.clone(),
        builds: vec![request.build.clone()],
        seen,
        wait_s,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_exact_over_any_stretch() {
        for share in [0.0, 0.25, 0.5, 0.875, 1.0] {
            for from in [0, 3, 1000] {
                let turns = (from..from + 800).filter(|n| gets_a_turn(*n, share));
                let got = turns.count() as f64;
                assert!((got - 800.0 * share).abs() <= 1.0, "{share}: {got}");
            }
        }
    }
}
