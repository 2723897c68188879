//! What to call the threads of a run: by the routine they started in.
//!
//! A record knows threads by number. The slice knows for each statement which
//! start routines can run it, so a thread's role is what all its statements
//! agree on. Where several remain, `main` is given to the thread with the lowest
//! id (Linux gives the first thread the process id) and denied to the others;
//! what is then still open is shown as it is ("producer or consumer").
//!
//! Limit: if the first thread recorded nothing and is not the one that failed,
//! the lowest id may be another thread's; its statements then decide alone.

use super::decoded_run::DecodedRun;
use sketch_model::{
    DependenceKind, SketchThread, Slice, SliceEntry, SourceLocation, StatementId, ThreadIndex,
};
use std::collections::{BTreeMap, BTreeSet};

const MAIN: &str = "main";

/// The threads of a run with their roles, by index. Threads that share a role
/// are numbered from the second on.
pub fn roles(run: &DecodedRun, slice: &Slice) -> Vec<SketchThread> {
    let possible = possible_roles(run, slice);
    let lowest = run.threads.iter().map(|t| t.tid).min();
    let mut used: BTreeMap<String, u32> = BTreeMap::new();
    run.threads
        .iter()
        .map(|thread| {
            let names = possible.get(&thread.index).cloned().unwrap_or_default();
            let role = single(names, Some(thread.tid) == lowest)
                .unwrap_or_else(|| format!("thread {}", thread.index));
            let count = used.entry(role.clone()).or_default();
            *count += 1;
            SketchThread {
                created_at: created_at(&role, slice),
                index: thread.index,
                role: if *count == 1 {
                    role
                } else {
                    format!("{role} #{count}")
                },
                tid: thread.tid,
            }
        })
        .collect()
}

/// Where threads of a role are created, as far as the slice shows.
pub fn created_at(role: &str, slice: &Slice) -> Vec<SourceLocation> {
    let starts = |e: &SliceEntry| {
        let parent = match &e.why {
            Some(why) if why.kind == DependenceKind::ThreadStart => slice.entry(why.parent),
            _ => None,
        };
        parent.is_some_and(|p| p.roles.iter().any(|r| r == role))
    };
    let sites = slice.entries.iter().filter(|e| starts(e));
    let mut places: Vec<SourceLocation> = sites.map(|e| e.statement.location.clone()).collect();
    places.sort();
    places.dedup();
    places
}

fn possible_roles(run: &DecodedRun, slice: &Slice) -> BTreeMap<ThreadIndex, BTreeSet<String>> {
    let known: BTreeMap<StatementId, BTreeSet<String>> = slice
        .entries
        .iter()
        .filter(|e| !e.roles.is_empty())
        .map(|e| (e.statement.id, e.roles.iter().cloned().collect()))
        .collect();
    let mut possible: BTreeMap<ThreadIndex, BTreeSet<String>> = BTreeMap::new();
    let mut narrow = |thread: ThreadIndex, statement: StatementId| {
        if let Some(roles) = known.get(&statement) {
            possible
                .entry(thread)
                .and_modify(|left| left.retain(|r| roles.contains(r)))
                .or_insert_with(|| roles.clone());
        }
    };
    for event in &run.trace.events {
        if let Some(statement) = event.statement() {
            narrow(event.thread, statement);
        }
    }
    if let (Some(thread), Some(failing)) = (run.failing_thread, slice.failing()) {
        narrow(thread, failing.statement.id);
    }
    possible
}

fn single(mut names: BTreeSet<String>, lowest: bool) -> Option<String> {
    if names.len() > 1 && names.contains(MAIN) {
        if lowest {
            return Some(MAIN.to_owned());
        }
        names.remove(MAIN);
    }
    joined(names.iter())
}

/// "producer or consumer"; `None` if there is none.
pub fn joined<'a>(names: impl Iterator<Item = &'a String>) -> Option<String> {
    let names: Vec<&str> = names.map(String::as_str).collect();
    (!names.is_empty()).then(|| names.join(" or "))
}
