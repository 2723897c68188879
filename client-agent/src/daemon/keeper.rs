//! The daemon's two threads around the spool: one writes, one sends.
//!
//! Records that arrive together are synced together, so a busy machine pays for
//! few syncs. The sender has the spool open a second time and takes segments
//! that the writer has let go of; the lock on each segment keeps the two apart,
//! as it keeps apart agents in different processes. Both sleep until there is
//! something to do.

use crate::delivery::client::Server;
use crate::delivery::outbox::settled;
use crate::delivery::spool::{Folder, Spool, SpoolError, Worth};
use crate::patches::backoff::Backoff;
use crate::stderr_log::say;
use std::{
    io,
    path::Path,
    sync::mpsc::{self, Receiver, RecvTimeoutError, Sender, SyncSender},
    thread,
    time::Duration,
};

/// More than this many waiting records make their senders wait.
const QUEUE: usize = 256;
/// The writer lets go of a segment after this long without a new record.
const QUIET: Duration = Duration::from_millis(50);
const FOR_ONE_RECORD: Duration = Duration::from_secs(30);

/// A record on its way to the disk, and whom to tell.
struct Arrived {
    record: Vec<u8>,
    worth: Worth,
    done: Sender<Result<(), String>>,
}

/// The way into the spool.
#[derive(Clone, Debug)]
pub struct Keeper {
    queue: SyncSender<Arrived>,
}

impl Keeper {
    /// Starts both threads. They end with the process: whatever is acknowledged
    /// is on disk, and whatever is on disk is sent by the next daemon.
    pub fn start(folder: &Path, limit: u64, server: Server, unique: u64) -> io::Result<Keeper> {
        let open = |unique| Ok::<_, io::Error>(Spool::new(Folder::open(folder)?, limit, unique));
        let (spool, outgoing) = (open(unique)?, open(!unique)?);
        let (queue, arriving) = mpsc::sync_channel(QUEUE);
        let (wake, woken) = mpsc::channel();
        // What an earlier daemon left.
        let _ = wake.send(());
        thread::Builder::new()
            .name("spool".into())
            .spawn(move || write(spool, &arriving, &wake))?;
        let folder = folder.to_owned();
        thread::Builder::new()
            .name("sender".into())
            .spawn(move || send(outgoing, &folder, &server, &woken))?;
        Ok(Keeper { queue })
    }

    /// Returns once the record is safe, or with the reason why it is not.
    pub fn keep(&self, record: Vec<u8>, worth: Worth) -> Result<(), String> {
        let (done, kept) = mpsc::channel();
        let arrived = Arrived {
            record,
            worth,
            done,
        };
        let gone = || "the spool's thread has ended".to_string();
        self.queue.send(arrived).map_err(|_| gone())?;
        kept.recv().map_err(|_| gone())?
    }
}

fn write(mut spool: Spool<Folder>, arriving: &Receiver<Arrived>, wake: &Sender<()>) {
    let mut unsent = false;
    loop {
        // With something unsent, quiet means that the sender may have it.
        let next = if unsent {
            arriving.recv_timeout(QUIET)
        } else {
            arriving.recv().map_err(|_| RecvTimeoutError::Disconnected)
        };
        match next {
            Ok(first) => {
                let batch: Vec<Arrived> = std::iter::once(first)
                    .chain(arriving.try_iter().take(QUEUE))
                    .collect();
                append(&mut spool, batch);
                unsent = true;
            }
            Err(RecvTimeoutError::Timeout) => {
                spool.let_go();
                unsent = false;
                let _ = wake.send(());
            }
            Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}

fn append(spool: &mut Spool<Folder>, batch: Vec<Arrived>) {
    for worth in [Worth::Failure, Worth::Success] {
        let (alike, records): (Vec<&Arrived>, Vec<&[u8]>) = batch
            .iter()
            .filter(|arrived| arrived.worth == worth)
            .map(|arrived| (arrived, arrived.record.as_slice()))
            .unzip();
        if alike.is_empty() {
            continue;
        }
        let outcome = spool.append_all(&records, worth);
        // Together they may be too many where some of them alone are not.
        let one_by_one = alike.len() > 1
            && matches!(
                outcome,
                Err(SpoolError::Full { .. } | SpoolError::TooLarge(_))
            );
        for arrived in alike {
            let outcome = match one_by_one {
                true => spool
                    .append(&arrived.record, worth)
                    .map_err(|e| e.to_string()),
                false => outcome.as_ref().copied().map_err(ToString::to_string),
            };
            // Whoever asked may have given up waiting.
            let _ = arrived.done.send(outcome);
        }
    }
}

fn send(mut spool: Spool<Folder>, folder: &Path, server: &Server, woken: &Receiver<()>) {
    let mut backoff = Backoff::new();
    let mut silent = false;
    while woken.recv().is_ok() {
        loop {
            // Many records, one round.
            while woken.try_recv().is_ok() {}
            let mut last = None;
            let sent = spool.send(|record| {
                let outcome = server.upload(record, Worth::Failure, FOR_ONE_RECORD);
                last = outcome.as_ref().err().map(ToString::to_string);
                settled(outcome)
            });
            match sent {
                Ok(sent) if sent.drained => {
                    if silent {
                        say("the server answers again; the spool is empty");
                    }
                    silent = false;
                    backoff.answered();
                    break;
                }
                Ok(_) if !silent => {
                    let why = last.unwrap_or_default();
                    say(format_args!("records wait in {}: {why}", folder.display()));
                    silent = true;
                }
                Ok(_) => {}
                Err(error) => say(format_args!("the spool cannot be read: {error}")),
            }
            thread::sleep(backoff.pause());
        }
    }
}
