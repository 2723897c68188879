//! What an agent is to run of its programs: at once, or when it changes.
//!
//! Waiting agents share one look at the storage every [`BETWEEN_LOOKS`], however
//! many they are: a thousand agents that wait cost as much as one. Nothing is
//! pushed from the engine, because with several servers on one storage another
//! server's engine may be the one that moves. Who asks for one run looks by itself.

use crate::http::agents::known_build;
use crate::http::refusal::Refusal;
use crate::http::routes::Service;
use diagnosis::campaign::Campaign;
use lru::LruCache;
use parking_lot::Mutex;
use sha2::{Digest, Sha256};
use sketch_model::{
    Assignments, AssignmentsRequest, BuildId, PatchFacts, ProgramAssignment, Schema, VariantRef,
};
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

const BETWEEN_LOOKS: Duration = Duration::from_millis(400);
/// Proxies give up on silent answers after a minute.
const LONGEST_WAIT: u32 = 50;
/// Patches whose facts are kept.
const FACTS_KEPT: NonZeroUsize = NonZeroUsize::new(1_000).unwrap();

/// What waiting agents share.
pub struct Standing {
    looked: tokio::sync::Mutex<Option<(Instant, Arc<Vec<Campaign>>)>>,
    facts: Mutex<LruCache<VariantRef, PatchFacts>>,
}

impl Default for Standing {
    fn default() -> Standing {
        Standing {
            looked: Default::default(),
            facts: Mutex::new(LruCache::new(FACTS_KEPT)),
        }
    }
}

/// The answer to a request, after waiting for it to change if that is asked.
pub async fn answer(
    service: &Arc<Service>,
    request: &AssignmentsRequest,
) -> Result<Assignments, Refusal> {
    let wait = Duration::from_secs(u64::from(request.wait_s.min(LONGEST_WAIT)));
    let until = Instant::now() + wait;
    let mut closing = service.closing.clone();
    loop {
        let assignments = now(service, request).await?;
        let news = request.seen.as_ref() != Some(&assignments.tag);
        if news || Instant::now() >= until || *closing.borrow() {
            noted(service, request, &assignments);
            return Ok(assignments);
        }
        tokio::select! {
            () = tokio::time::sleep_until(until.min(Instant::now() + BETWEEN_LOOKS)) => {}
            _ = closing.changed() => {}
        }
    }
}

async fn now(service: &Arc<Service>, request: &AssignmentsRequest) -> Result<Assignments, Refusal> {
    let mut programs = Vec::new();
    for build in &request.builds {
        programs.push(match known_build(service, build).await {
            Ok(()) => program(service, request, build).await?,
            Err(refusal) if refusal.status().is_client_error() => ProgramAssignment {
                problem: Some(refusal.sentence().to_owned()),
                ..ProgramAssignment::original(build)
            },
            Err(refusal) => return Err(refusal),
        });
    }
    // Whatever cannot be written has the same tag; it cannot be sent either.
    let text = serde_json::to_vec(&programs).unwrap_or_default();
    Ok(Assignments {
        schema: Schema::default(),
        tag: hex::encode(&Sha256::digest(&text)[..8]),
        programs,
    })
}

async fn program(
    service: &Arc<Service>,
    request: &AssignmentsRequest,
    build: &BuildId,
) -> Result<ProgramAssignment, Refusal> {
    let about = match request.wait_s {
        0 => service.storage.campaigns_of(build).await?,
        _ => {
            let all = campaigns(service).await?;
            let about = all.iter().filter(|c| c.identity.build == *build);
            about.cloned().collect()
        }
    };
    let mut told = service.assigner.next(request, build, &about);
    let Some(variant) = told.variant else {
        return Ok(ProgramAssignment {
            finished: told.finished,
            ..ProgramAssignment::original(build)
        });
    };
    told.patch = facts(service, variant).await?;
    if told
        .patch
        .is_none_or(|patch| patch.expires <= crate::campaigns::fleet::now())
    {
        return Ok(ProgramAssignment {
            problem: Some(format!(
                "the patch of campaign {} is lost or has expired; widen or resume the campaign to make another",
                variant.campaign
            )),
            ..ProgramAssignment::original(build)
        });
    }
    Ok(told)
}

/// All campaigns as they were a moment ago.
async fn campaigns(service: &Service) -> Result<Arc<Vec<Campaign>>, Refusal> {
    let mut looked = service.standing.looked.lock().await;
    if let Some((at, campaigns)) = &*looked
        && at.elapsed() < BETWEEN_LOOKS
    {
        return Ok(Arc::clone(campaigns));
    }
    let campaigns = Arc::new(service.storage.campaigns().await?);
    *looked = Some((Instant::now(), Arc::clone(&campaigns)));
    Ok(campaigns)
}

/// What a patch says of itself; `None` if it is lost.
async fn facts(service: &Arc<Service>, variant: VariantRef) -> Result<Option<PatchFacts>, Refusal> {
    let known = service.standing.facts.lock().get(&variant).copied();
    if known.is_some() {
        return Ok(known);
    }
    let Some(iteration) = service.storage.iteration(variant).await? else {
        return Ok(None);
    };
    let (blobs, key) = (Arc::clone(&service.blobs), service.public_key.clone());
    let read = tokio::task::spawn_blocking(move || {
        let bytes = blobs.get(&iteration.patch).ok()?;
        let key = code_patch::PublicKey::from_text(&key).ok()?;
        let patch = code_patch::open(&bytes, &key, 0).ok()?;
        Some(PatchFacts {
            version: patch.manifest().version,
            expires: patch.manifest().expires,
            bytes: bytes.len() as u64,
        })
    });
    let read = read.await?;
    if let Some(read) = read {
        service.standing.facts.lock().put(variant, read);
    }
    Ok(read)
}

/// The fleet page shows the assignment that an agent was given.
fn noted(service: &Service, request: &AssignmentsRequest, told: &Assignments) {
    for program in told.programs.iter().filter(|p| p.problem.is_none()) {
        let (agent, offers) = (&request.agent, &request.capabilities);
        let fleet = &service.fleet;
        fleet.told(agent, offers, &program.build, program.variant);
    }
}
