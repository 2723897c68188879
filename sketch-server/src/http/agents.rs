//! What agents say to the server: runs, and what to run next.
//!
//! A run is acknowledged once it is on the disk, not once it is understood;
//! understanding is the engine's. Everything that arrives is checked here: who
//! says it, size, form, format version, known build, known tracked build, and that
//! it does not contradict itself.

use super::extract::Named;
use super::record_check;
use super::refusal::{Reason, Refusal};
use super::routes::{Service, Shared};
use super::upload::Upload;
use crate::access::Principal;
use crate::campaigns::assignment_feed;
use axum::Json;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Extension, Query, State};
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use lru::LruCache;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use sketch_model::{
    AgentId, Assignments, AssignmentsRequest, BuildId, CampaignId, Capabilities, Execution,
    FailureKind, RunRecord, Schema, SiteId, VariantRef,
};
use std::collections::HashSet;
use std::num::NonZeroUsize;
use std::sync::Arc;

/// No id may be longer.
const LONGEST_ID: usize = 200;
/// Nobody runs more programs than this under one agent.
const MOST_BUILDS: usize = 256;
/// Tracked builds of which the checks are kept.
const VARIANTS_KEPT: NonZeroUsize = NonZeroUsize::new(1_000).unwrap();

/// The key that patches are signed with; agents pin it.
#[utoipa::path(get, path = "/api/v1/key", tag = "agents", responses((status = 200, description = "A minisign public key", body = String, content_type = "text/plain")))]
pub async fn key(State(service): Shared) -> impl IntoResponse {
    let kind = [(header::CONTENT_TYPE, "text/plain; charset=utf-8")];
    (kind, service.public_key.clone())
}

/// A run is on the disk.
#[derive(Serialize, utoipa::ToSchema)]
pub struct Accepted {
    pub accepted: bool,
}

/// Takes a run. The same run may be sent again; it counts once.
#[utoipa::path(post, path = "/api/v1/runs", tag = "agents", request_body = Object, responses((status = 202, description = "The run is stored and will be counted", body = Accepted)))]
pub async fn accept_run(
    State(service): Shared,
    Extension(principal): Extension<Principal>,
    body: Upload,
) -> Result<impl IntoResponse, Refusal> {
    let record: RunRecord = body.read("run record").await?;
    record
        .schema
        .check("run record")
        .map_err(|e| malformed(e.to_string()))?;
    check_id("run id", &record.id.0)?;
    check_id("agent id", &record.agent.0)?;
    principal.speaks_for(&record.agent)?;
    record_check::alone(&record).map_err(contradictory)?;
    known_build(&service, &record.build).await?;
    match record.execution {
        Execution::Original => {}
        Execution::Tracked(variant) => known_variant(&service, &record, variant).await?,
        Execution::Traced { .. } | Execution::Local { .. } => {
            return Err(no_campaigns(record.execution));
        }
    }
    if service.storage.accept_run(&record).await? {
        service.metrics.accepted(&record);
        service.fleet.ran(&record);
        service.engine.runs_arrived();
    } else {
        service.metrics.repeated.inc();
    }
    let accepted = Json(Accepted { accepted: true });
    Ok((StatusCode::ACCEPTED, accepted))
}

/// What to run, of the programs of an agent. With `wait_s` the answer stands until it
/// changes; with `seen`, too, it waits until it is another one.
#[utoipa::path(post, path = "/api/v1/assignments", tag = "agents", request_body = AssignmentsRequest, responses((status = 200, body = Assignments)))]
pub async fn assign(
    State(service): Shared,
    Extension(principal): Extension<Principal>,
    body: Upload,
) -> Result<Json<Assignments>, Refusal> {
    let request: AssignmentsRequest = body.read("assignments request").await?;
    check_id("agent id", &request.agent.0)?;
    principal.speaks_for(&request.agent)?;
    if request.builds.len() > MOST_BUILDS {
        return Err(Refusal::bad_request(format!(
            "{} builds are asked about in one request; at most {MOST_BUILDS} are allowed",
            request.builds.len()
        )));
    }
    Ok(Json(assignment_feed::answer(&service, &request).await?))
}

/// How agents of earlier releases ask about one run.
#[derive(Deserialize, utoipa::ToSchema)]
pub struct SingleQuestion {
    agent: AgentId,
    build: BuildId,
    #[serde(rename = "tier")]
    capabilities: Capabilities,
}

/// What they read.
#[derive(Serialize, utoipa::ToSchema)]
pub struct SingleAnswer {
    schema: Schema,
    variant: Option<VariantRef>,
    finished: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    expected: Option<FailureKind>,
}

/// What to run next, of one program, for agents of earlier releases: they leave it to the
/// server which runs stay with P.
#[utoipa::path(post, path = "/api/v1/assignment", tag = "agents", request_body = SingleQuestion, responses((status = 200, body = SingleAnswer)))]
pub async fn assign_one(
    State(service): Shared,
    Extension(principal): Extension<Principal>,
    body: Upload,
) -> Result<Json<SingleAnswer>, Refusal> {
    let SingleQuestion {
        agent,
        build,
        capabilities,
    } = body.read("assignment request").await?;
    check_id("agent id", &agent.0)?;
    principal.speaks_for(&agent)?;
    known_build(&service, &build).await?;
    let request = AssignmentsRequest {
        agent,
        capabilities,
        builds: vec![build],
        seen: None,
        wait_s: 0,
    };
    let told = assignment_feed::answer(&service, &request).await?;
    let program = told.programs.into_iter().next();
    let answer = program.map(|program| SingleAnswer {
        schema: told.schema,
        variant: program
            .variant
            .filter(|_| !service.assigner.stays_with_p(&program.build)),
        finished: program.finished,
        expected: program.expected,
    });
    let none = || malformed("the request names no build".into());
    Ok(Json(answer.ok_or_else(none)?))
}

#[derive(Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
pub struct PlanNumber {
    /// Which of the iteration's plans.
    #[serde(default)]
    plan: u32,
}

/// The signed patch that makes a tracked build.
#[utoipa::path(get, path = "/api/v1/patches/{campaign}/{iteration}", tag = "agents",
    params(("campaign" = u64, Path, description = "The campaign's number"), ("iteration" = u32, Path, description = "Its iteration, from 1"), PlanNumber),
    responses((status = 200, description = "A patch container", body = Vec<u8>, content_type = "application/octet-stream")))]
pub async fn patch(
    State(service): Shared,
    Named((campaign, iteration)): Named<(CampaignId, u32)>,
    query: Result<Query<PlanNumber>, QueryRejection>,
) -> Result<impl IntoResponse, Refusal> {
    let Query(PlanNumber { plan }) = query
        .map_err(|_| Refusal::bad_request("the plan of an iteration is a whole number: ?plan=1"))?;
    let variant = VariantRef {
        campaign,
        iteration,
        plan,
    };
    let record = service.storage.iteration(variant).await?;
    let record = record.ok_or_else(|| no_such_variant(variant))?;
    let blobs = Arc::clone(&service.blobs);
    let bytes = tokio::task::spawn_blocking(move || blobs.get(&record.patch)).await??;
    let kind = [(header::CONTENT_TYPE, "application/octet-stream")];
    Ok((kind, bytes))
}

fn malformed(sentence: String) -> Refusal {
    Refusal::because(Reason::Malformed, StatusCode::BAD_REQUEST, sentence)
}

fn contradictory(sentence: String) -> Refusal {
    Refusal::because(
        Reason::Contradictory,
        StatusCode::UNPROCESSABLE_ENTITY,
        sentence,
    )
}

fn no_such_variant(variant: VariantRef) -> Refusal {
    Refusal::because(
        Reason::UnknownVariant,
        StatusCode::NOT_FOUND,
        format!(
            "campaign {} has no tracked build of iteration {}, plan {}; ask for an assignment first",
            variant.campaign, variant.iteration, variant.plan
        ),
    )
}

fn no_campaigns(execution: Execution) -> Refusal {
    Refusal::because(
        Reason::UnknownVariant,
        StatusCode::NOT_FOUND,
        format!("the run says that it is of {execution}, which counts for no campaign"),
    )
}

fn check_id(what: &str, id: &str) -> Result<(), Refusal> {
    if id.is_empty() || id.len() > LONGEST_ID {
        return Err(malformed(format!(
            "the {what} has {} bytes; it must have 1 to {LONGEST_ID}",
            id.len()
        )));
    }
    Ok(())
}

/// Refuses a build that is not registered.
pub async fn known_build(service: &Arc<Service>, build: &BuildId) -> Result<(), Refusal> {
    if service.registered.lock().contains(build) {
        return Ok(());
    }
    let (asked, theirs) = (Arc::clone(service), build.clone());
    tokio::task::spawn_blocking(move || asked.builds.program_name(&theirs)).await??;
    service.registered.lock().insert(build.clone());
    Ok(())
}

/// What records of a tracked build are checked against; it never changes.
pub struct KnownVariant {
    build: BuildId,
    sites: HashSet<SiteId>,
}

/// Tracked builds that runs were reported of lately.
pub struct KnownVariants(Mutex<LruCache<VariantRef, Arc<KnownVariant>>>);

impl Default for KnownVariants {
    fn default() -> KnownVariants {
        KnownVariants(Mutex::new(LruCache::new(VARIANTS_KEPT)))
    }
}

async fn known_variant(
    service: &Service,
    record: &RunRecord,
    variant: VariantRef,
) -> Result<(), Refusal> {
    let known = service.variants.0.lock().get(&variant).cloned();
    let known = match known {
        Some(known) => known,
        None => look_up(service, variant).await?,
    };
    if known.build != record.build {
        return Err(contradictory(format!(
            "the run says it is of build {}, but campaign {} is of another build",
            record.build, variant.campaign
        )));
    }
    record_check::with_sites(record, &known.sites).map_err(contradictory)
}

async fn look_up(service: &Service, variant: VariantRef) -> Result<Arc<KnownVariant>, Refusal> {
    let iteration = service.storage.iteration(variant).await?;
    let campaign = service.storage.campaign(variant.campaign).await?;
    let (Some(iteration), Some(campaign)) = (iteration, campaign) else {
        return Err(no_such_variant(variant));
    };
    let known = Arc::new(KnownVariant {
        build: campaign.identity.build,
        sites: iteration.plan.sites.iter().map(|site| site.id).collect(),
    });
    service.variants.0.lock().put(variant, Arc::clone(&known));
    Ok(known)
}
