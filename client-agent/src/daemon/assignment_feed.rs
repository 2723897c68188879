//! Keeps one long poll per build open, so that a starting run finds its assignment here.
//!
//! For each build that runs here one thread keeps a request open at the server, which
//! answers when the assignment changes. An assignment holds until the next answer, and
//! its patch is fetched at once, so that a starting run gets both from this machine.
//! Polling stops for a build that nobody has run for a while.
//!
//! If the server is silent, only the waiting thread asks again, with growing pauses;
//! runs use the last assignment for a while, and then the original. No run waits for
//! the server.

use super::lock;
use crate::delivery::client::Server;
use crate::error::AgentError;
use crate::patches::backoff::Backoff;
use crate::stderr_log::say;
use sketch_model::{
    AgentId, Assignments, AssignmentsRequest, BuildId, Capabilities, ProgramAssignment, Schema,
    VariantRef,
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

/// Who asks about which build.
#[derive(Clone)]
struct Asker {
    agent: AgentId,
    capabilities: Capabilities,
    build: BuildId,
}

impl Asker {
    fn question(&self, seen: Option<String>, wait_s: u32) -> AssignmentsRequest {
        AssignmentsRequest {
            agent: self.agent.clone(),
            capabilities: self.capabilities.clone(),
            builds: vec![self.build.clone()],
            seen,
            wait_s,
        }
    }
}

/// What the server last said about a build.
#[derive(Default)]
struct Known {
    plan: Option<ProgramAssignment>,
    /// The server's tag of the assignment.
    tag: Option<String>,
    /// Until when it may be used.
    good_until: Option<Instant>,
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

    /// What runs are to be, if what was heard still stands.
    fn standing(&self, now: Instant) -> Option<ProgramAssignment> {
        let stands = self.good_until.is_some_and(|until| now <= until);
        self.plan.clone().filter(|_| stands)
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

    /// What runs that start now are to be.
    pub fn assignments(
        self: &Arc<Plans>,
        request: &AssignmentsRequest,
    ) -> Result<Assignments, AgentError> {
        let builds = request.builds.iter().cloned();
        let programs = builds.map(|build| {
            self.program(&Asker {
                agent: request.agent.clone(),
                capabilities: request.capabilities.clone(),
                build,
            })
        });
        Ok(Assignments {
            schema: Schema::default(),
            // Nobody waits for another one here.
            tag: String::new(),
            programs: programs.collect::<Result<_, _>>()?,
        })
    }

    fn program(self: &Arc<Plans>, asker: &Asker) -> Result<ProgramAssignment, AgentError> {
        let entry = self.entry((asker.build.clone(), asker.capabilities.clone()));
        // Those who ask about a new build together wait for one answer.
        let mut known = lock(&entry);
        let now = Instant::now();
        known.asked = Some(now);
        if let Some(standing) = known.standing(now) {
            return Ok(standing);
        }
        if let Some((until, why)) = &known.silent
            && now < *until
        {
            return Err(AgentError::ServerSilent(why.clone()));
        }
        match self.server.assignments(&asker.question(None, 0)) {
            Ok(said) => known.heard(said),
            Err(error) => {
                known.silent = Some((Instant::now() + PROMPT, error.to_string()));
                return Err(error);
            }
        };
        if !known.watched {
            known.watched = self.watch(asker, &entry);
        }
        let standing = known.standing(Instant::now());
        if !known.watched {
            known.good_until = Some(Instant::now() + PASSING);
        }
        standing.ok_or_else(|| AgentError::ServerAnswer {
            what: "assignments",
            reason: "it does not mention the build".into(),
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

    /// Begins to wait for news of a build; false if there are too many already.
    fn watch(self: &Arc<Plans>, asker: &Asker, entry: &Arc<Mutex<Known>>) -> bool {
        let mut started = false;
        if self.watching.fetch_add(1, Ordering::AcqRel) < MOST_WATCHED {
            let (plans, entry, asker) = (self.clone(), entry.clone(), asker.clone());
            let thread = thread::Builder::new()
                .name("plans".into())
                .stack_size(256 << 10)
                .spawn(move || {
                    plans.wait_for_news(&asker, &entry);
                    plans.watching.fetch_sub(1, Ordering::AcqRel);
                });
            started = thread.is_ok();
        }
        if !started {
            self.watching.fetch_sub(1, Ordering::AcqRel);
        }
        started
    }

    fn wait_for_news(&self, asker: &Asker, entry: &Mutex<Known>) {
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
            match self.server.assignments(&asker.question(seen, HELD_BACK_S)) {
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
