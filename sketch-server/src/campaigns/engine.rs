//! The engine thread: the only one of this server that changes campaigns; it runs jobs
//! and answers steering.
//!
//! A single thread needs no locks and sees runs in the order in
//! which they arrived. It works through the pending runs in batches, keeps at most
//! one preparing job going beside it (LLVM takes a core), and sleeps otherwise.
//! Requests never wait for it except to steer, which it answers between two batches.
//!
//! Where other servers share the storage it also looks there now and then: runs
//! that they accepted for builds that are this one's, and work that a dead one left.

use super::run_filing::RunFiling;
use crate::jobs::{JobError, JobReport, Tools};
use crate::storage::{Storage, StorageError};
use diagnosis::campaign::{Campaign, CannotSteer, Steering};
use sketch_model::CampaignId;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tokio::runtime::Handle;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;

/// How long the engine leaves a storage alone that has just failed it.
const STORAGE_PAUSE: Duration = Duration::from_secs(1);

/// How often a storage that others use too is looked at.
const BETWEEN_LOOKS: Duration = Duration::from_millis(200);

/// How long it waits after another server was first.
const AFTER_CONFLICT: Duration = Duration::from_millis(20);

/// Runs that are filed together.
const BATCH: usize = 128;

enum Message {
    RunsArrived,
    Steer(
        CampaignId,
        Steering,
        oneshot::Sender<Result<Steered, StorageError>>,
    ),
    Job(JobReport),
    JobEnded,
    Quiet(oneshot::Sender<()>),
    Shutdown,
}

/// What became of what a developer asked for.
pub enum Steered {
    NoSuchCampaign,
    Refused(CannotSteer),
    Done(Box<Campaign>),
}

/// How the rest of the server talks to the engine.
#[derive(Clone)]
pub struct EngineHandle {
    outbox: mpsc::UnboundedSender<Message>,
    /// Whether a `RunsArrived` is under way: a flood of runs sends one.
    woken: Arc<AtomicBool>,
}

/// The engine has ended; only possible while the server shuts down.
#[derive(Debug, thiserror::Error)]
#[error("the server is shutting down; try again when it is back")]
pub struct EngineGone;

/// Why a campaign could not even be asked.
#[derive(Debug, thiserror::Error)]
pub enum NotSteered {
    #[error(transparent)]
    EngineGone(#[from] EngineGone),
    #[error(transparent)]
    Storage(#[from] StorageError),
}

impl EngineHandle {
    /// Tells the engine that the storage holds new runs.
    pub fn runs_arrived(&self) {
        if !self.woken.swap(true, Ordering::AcqRel) {
            // A gone engine finds them when it starts again.
            let _ = self.outbox.send(Message::RunsArrived);
        }
    }

    /// Does with a campaign what a developer asks for.
    pub async fn steer(&self, id: CampaignId, steering: Steering) -> Result<Steered, NotSteered> {
        let (answer, steered) = oneshot::channel();
        let sent = self.outbox.send(Message::Steer(id, steering, answer));
        sent.map_err(|_| EngineGone)?;
        Ok(steered.await.map_err(|_| EngineGone)??)
    }

    /// Waits until no run is pending and no job is going on.
    pub async fn quiet(&self) -> Result<(), EngineGone> {
        let (answer, quiet) = oneshot::channel();
        let sent = self.outbox.send(Message::Quiet(answer));
        sent.map_err(|_| EngineGone)?;
        quiet.await.map_err(|_| EngineGone)
    }

    pub fn shut_down(&self) {
        // An engine that is gone already needs no telling.
        let _ = self.outbox.send(Message::Shutdown);
    }
}

struct Engine {
    runtime: Handle,
    run_filing: RunFiling,
    tools: Tools,
    inbox: mpsc::UnboundedReceiver<Message>,
    handle: EngineHandle,
    job: Option<JoinHandle<()>>,
    /// When a job that the storage interrupted may be run again.
    job_again: Option<Instant>,
    /// Whether other servers use the storage too.
    shared: bool,
    waiting: Vec<oneshot::Sender<()>>,
    ending: bool,
}

/// Starts the engine on a blocking thread of the current runtime. It ends, its
/// job with it, some time after [`EngineHandle::shut_down`].
pub async fn start(
    storage: Arc<Storage>,
    tools: Tools,
) -> Result<(EngineHandle, JoinHandle<()>), StorageError> {
    let runtime = Handle::current();
    let (outbox, inbox) = mpsc::unbounded_channel();
    let handle = EngineHandle {
        outbox,
        woken: Arc::new(AtomicBool::new(false)),
    };
    let (opened, opening) = oneshot::channel();
    let theirs = handle.clone();
    let thread = tokio::task::spawn_blocking(move || {
        let shared = storage.heartbeat().is_some();
        let run_filing = match RunFiling::open(runtime.clone(), storage, tools.clone()) {
            Ok(run_filing) => run_filing,
            Err(error) => {
                let _ = opened.send(Err(error));
                return;
            }
        };
        let _ = opened.send(Ok(()));
        let engine = Engine {
            runtime,
            run_filing,
            tools,
            inbox,
            handle: theirs,
            job: None,
            job_again: None,
            shared,
            waiting: Vec::new(),
            ending: false,
        };
        engine.work();
    });
    // The sender is dropped without a word only if the thread panicked.
    match opening.await {
        Ok(opened) => opened.map(|()| (handle, thread)),
        Err(_) => Ok((handle, thread)),
    }
}

impl Engine {
    fn work(mut self) {
        while !self.ending {
            if let Err(error) = self.turn() {
                tracing::error!(%error, "the storage failed; trying again shortly");
                let paused = tokio::time::timeout(STORAGE_PAUSE, self.inbox.recv());
                if let Ok(Some(message)) = self.runtime.block_on(paused) {
                    self.hear(message);
                }
                continue;
            }
            // Told to end in the middle of a backlog: no further message comes.
            if self.ending {
                break;
            }
            if self.job.is_none() && self.job_again.is_none() {
                for waiting in self.waiting.drain(..) {
                    // Whoever asked may have left.
                    let _ = waiting.send(());
                }
            }
            match self.next_message() {
                Some(Some(message)) => self.hear(message),
                Some(None) => break,
                // Time to look at the storage again.
                None => {}
            }
        }
        if let Some(job) = self.job.take() {
            // What it made is made again at the next start, except the blobs.
            let _ = self.runtime.block_on(job);
        }
    }

    /// The next message, `Some(None)` if there will be none; `None` if the engine
    /// should look at the storage before one comes.
    fn next_message(&mut self) -> Option<Option<Message>> {
        let again = self.job_again;
        let again = again.map(|at| at.saturating_duration_since(Instant::now()));
        let look = self.shared.then_some(BETWEEN_LOOKS);
        let Some(most) = again.into_iter().chain(look).min() else {
            return Some(self.inbox.blocking_recv());
        };
        let inbox = &mut self.inbox;
        let message = async { tokio::time::timeout(most, inbox.recv()).await };
        self.runtime.block_on(message).ok()
    }

    /// Files what is pending and starts a job if one is due.
    fn turn(&mut self) -> Result<(), StorageError> {
        loop {
            let runs = self.run_filing.pending(BATCH)?;
            if runs.is_empty() {
                break;
            }
            match self.run_filing.file(&runs) {
                Err(error) if error.is_conflict() => {
                    tracing::info!(%error, "runs are processed again");
                    self.runtime
                        .block_on(async { tokio::time::sleep(AFTER_CONFLICT).await });
                }
                filed => filed?,
            }
            while let Ok(message) = self.inbox.try_recv() {
                self.hear(message);
            }
            if self.ending {
                return Ok(());
            }
        }
        let due = self.job_again.is_none_or(|at| at <= Instant::now());
        if self.job.is_none()
            && due
            && let Some(job) = self.run_filing.next_job()?
        {
            self.job_again = None;
            let tools = self.tools.clone();
            let outbox = self.handle.outbox.clone();
            self.job = Some(self.runtime.spawn_blocking(move || {
                // The engine outlives its job.
                job.run(&tools, |report| {
                    let _ = outbox.send(Message::Job(report));
                });
                let _ = outbox.send(Message::JobEnded);
            }));
        }
        Ok(())
    }

    fn hear(&mut self, message: Message) {
        match message {
            // Before the storage is read again: a run that is added from now on
            // sends a message of its own.
            Message::RunsArrived => self.handle.woken.store(false, Ordering::Release),
            Message::Steer(id, steering, answer) => {
                let _ = answer.send(self.run_filing.steer(id, steering));
            }
            Message::Job(JobReport {
                campaign,
                outcome: Err(JobError::TryAgain(error)),
            }) => {
                tracing::error!(%campaign, %error, "what a job made could not be stored; trying again shortly");
                self.job_again = Some(Instant::now() + STORAGE_PAUSE);
            }
            Message::Job(report) => {
                if let Err(error) = self.run_filing.job_reported(report) {
                    // The campaign is still preparing and its job is run again.
                    tracing::error!(%error, "what a job reported could not be stored");
                }
            }
            Message::JobEnded => self.job = None,
            Message::Quiet(answer) => self.waiting.push(answer),
            Message::Shutdown => self.ending = true,
        }
    }
}
