//! The HTTP API: what agents and commands say to the server, as JSON.
//!
//! A run is acknowledged once it is on the disk, not once it is understood;
//! understanding is the engine's. Everything that arrives is checked here:
//! size, form, format version, known build, known tracked build.
//!
//! Deliberately absent: tokens and TLS, which issue 7 adds. Until then the
//! server listens where its operator says, 127.0.0.1 by default.

use super::assignment::Assigner;
use super::campaign::Campaign;
use super::engine::EngineHandle;
use super::events;
use super::exports;
use super::fleet::Fleet;
use super::http_error::Refusal;
use super::pages;
use super::steering;
use super::storage::{Blobs, Storage};
use super::workshop::Workshop;
use axum::Json;
use axum::Router;
use axum::body::Bytes;
use axum::extract::rejection::{BytesRejection, PathRejection, QueryRejection};
use axum::extract::{DefaultBodyLimit, Path, Query, State};
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use axum::routing::{get, post};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use sketch_model::{
    Assignment, AssignmentRequest, BuildId, CampaignId, CampaignSummary, FailureSketch, RunRecord,
    Schema, Slice, VariantRef,
};
use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::{Semaphore, watch};

/// No request may be larger.
pub const LARGEST_BODY: usize = 16 << 20;
/// Nor any id in it longer.
const LONGEST_ID: usize = 200;

/// What the handlers share.
pub struct Service {
    pub storage: Arc<dyn Storage>,
    pub blobs: Arc<Blobs>,
    pub workshop: Arc<dyn Workshop>,
    pub engine: EngineHandle,
    pub assigner: Assigner,
    pub public_key: String,
    /// Builds found registered; registration is never taken back.
    pub registered: Mutex<HashSet<BuildId>>,
    pub fleet: Fleet,
    /// Pages that can be followed live at the same time.
    pub streams: Arc<Semaphore>,
    /// Becomes true when the server shuts down: open streams end.
    pub closing: watch::Receiver<bool>,
}

pub type Shared = State<Arc<Service>>;

/// All routes of the server.
pub fn router(service: Arc<Service>) -> Router {
    Router::new()
        .route("/api/v1/health", get(health))
        .route("/api/v1/key", get(key))
        .route("/api/v1/runs", post(accept_run))
        .route("/api/v1/assignment", post(assign))
        .route("/api/v1/patches/{campaign}/{iteration}", get(patch))
        .route("/api/v1/campaigns", get(campaigns))
        .route("/api/v1/campaigns/{id}", get(campaign))
        .route("/api/v1/campaigns/{id}/stop", post(stop))
        .route("/api/v1/campaigns/{id}/sketch", get(sketch))
        .route("/api/v1/campaigns/{id}/slice", get(slice))
        .route("/api/v1/campaigns/{id}/events", get(events::events))
        .route("/api/v1/campaigns/{id}/{verb}", post(steering::by_command))
        .route("/", get(pages::failures))
        .route("/fleet", get(pages::fleet))
        .route("/builds", get(pages::builds))
        .route("/campaigns/{id}", get(pages::sketch))
        .route("/campaigns/{id}/progress", get(pages::progress))
        .route("/campaigns/{id}/slice", get(pages::slice))
        .route("/campaigns/{id}/source", get(pages::source))
        .route("/campaigns/{id}/runs", get(pages::runs))
        .route("/campaigns/{id}/export/{format}", get(exports::export))
        .route("/campaigns/{id}/{verb}", post(steering::by_form))
        .route(viewer::SCRIPT_PATH, get(pages::script))
        .fallback(nothing_here)
        .layer(axum::middleware::from_fn(steering::same_site))
        .layer(DefaultBodyLimit::max(LARGEST_BODY))
        .with_state(service)
}

async fn health() -> impl IntoResponse {
    Json(serde_json::json!({ "ok": true }))
}

async fn key(State(service): Shared) -> impl IntoResponse {
    let kind = [(header::CONTENT_TYPE, "text/plain; charset=utf-8")];
    (kind, service.public_key.clone())
}

async fn nothing_here() -> Refusal {
    Refusal::not_found("there is nothing at this address; the API is under /api/v1/")
}

async fn accept_run(
    State(service): Shared,
    body: Result<Bytes, BytesRejection>,
) -> Result<impl IntoResponse, Refusal> {
    let record: RunRecord = parsed("run record", body)?;
    record
        .schema
        .check("run record")
        .map_err(|e| Refusal::bad_request(e.to_string()))?;
    check_id("run id", &record.id.0)?;
    check_id("agent id", &record.agent.0)?;
    let sampled = record.sampling_probability;
    if !(sampled > 0.0 && sampled <= 1.0) {
        return Err(Refusal::bad_request(format!(
            "the run's sampling probability is {sampled}; it must be above 0 and at most 1"
        )));
    }
    known_build(&service, &record.build).await?;
    if let Some(variant) = record.variant {
        known_variant(&service, &record.build, variant).await?;
    }
    if service.storage.accept_run(&record).await? {
        service.fleet.ran(&record);
        service.engine.runs_arrived();
    }
    let accepted = Json(serde_json::json!({ "accepted": true }));
    Ok((StatusCode::ACCEPTED, accepted))
}

async fn assign(
    State(service): Shared,
    body: Result<Bytes, BytesRejection>,
) -> Result<Json<Assignment>, Refusal> {
    let request: AssignmentRequest = parsed("assignment request", body)?;
    check_id("agent id", &request.agent.0)?;
    known_build(&service, &request.build).await?;
    let campaigns = service.storage.campaigns_of(&request.build).await?;
    let assignment = service.assigner.assign(&request, &campaigns);
    service.fleet.asked(&request, &assignment);
    Ok(Json(assignment))
}

#[derive(Deserialize)]
struct PlanNumber {
    #[serde(default)]
    plan: u32,
}

async fn patch(
    State(service): Shared,
    path: Result<Path<(u64, u32)>, PathRejection>,
    query: Result<Query<PlanNumber>, QueryRejection>,
) -> Result<impl IntoResponse, Refusal> {
    let Path((campaign, iteration)) = numbers(path)?;
    let Query(PlanNumber { plan }) = query
        .map_err(|_| Refusal::bad_request("the plan of an iteration is a whole number: ?plan=1"))?;
    let variant = VariantRef {
        campaign: CampaignId(campaign),
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

async fn campaigns(State(service): Shared) -> Result<Json<Vec<CampaignSummary>>, Refusal> {
    Ok(Json(summaries(&service).await?))
}

async fn campaign(
    State(service): Shared,
    path: Result<Path<u64>, PathRejection>,
) -> Result<Json<CampaignSummary>, Refusal> {
    let id = campaign_number(path)?;
    Ok(Json(find_summary(&service, id).await?))
}

async fn stop(
    State(service): Shared,
    path: Result<Path<u64>, PathRejection>,
) -> Result<Json<CampaignSummary>, Refusal> {
    let id = campaign_number(path)?;
    let stopped = service.engine.stop(id).await??;
    let campaign = stopped.ok_or_else(|| no_such_campaign(id))?;
    Ok(Json(summary(&service, &campaign).await?))
}

#[derive(Deserialize)]
pub struct Version {
    pub version: Option<u32>,
}

async fn sketch(
    State(service): Shared,
    path: Result<Path<u64>, PathRejection>,
    query: Result<Query<Version>, QueryRejection>,
) -> Result<Json<FailureSketch>, Refusal> {
    let id = campaign_number(path)?;
    Ok(Json(find_sketch(&service, id, version(query)?).await?))
}

async fn slice(
    State(service): Shared,
    path: Result<Path<u64>, PathRejection>,
) -> Result<Json<Slice>, Refusal> {
    let id = campaign_number(path)?;
    match service.storage.slice(id).await? {
        Some(slice) => Ok(Json(slice)),
        None => Err(missing(&service, id, "slice").await?),
    }
}

/// All campaigns at a glance, oldest first.
pub async fn summaries(service: &Service) -> Result<Vec<CampaignSummary>, Refusal> {
    let mut found = Vec::new();
    for campaign in service.storage.campaigns().await? {
        found.push(summary(service, &campaign).await?);
    }
    Ok(found)
}

async fn summary(service: &Service, campaign: &Campaign) -> Result<CampaignSummary, Refusal> {
    let counts = service.storage.build_counts(&campaign.build).await?;
    Ok(campaign.summary(counts))
}

/// One campaign at a glance.
pub async fn find_summary(service: &Service, id: CampaignId) -> Result<CampaignSummary, Refusal> {
    let campaign = service.storage.campaign(id).await?;
    let campaign = campaign.ok_or_else(|| no_such_campaign(id))?;
    summary(service, &campaign).await
}

/// A version of a campaign's sketch, or the latest.
pub async fn find_sketch(
    service: &Service,
    id: CampaignId,
    version: Option<u32>,
) -> Result<FailureSketch, Refusal> {
    match (service.storage.sketch(id, version).await?, version) {
        (Some(sketch), _) => Ok(sketch),
        (None, None) => Err(missing(service, id, "sketch").await?),
        (None, Some(version)) => {
            let latest = service.storage.sketch(id, None).await?;
            match latest {
                None => Err(missing(service, id, "sketch").await?),
                Some(latest) => Err(Refusal::not_found(format!(
                    "campaign {id} has no sketch version {version}; its versions are 1 to {}",
                    latest.version
                ))),
            }
        }
    }
}

/// Why something that a campaign has in the end is not there.
pub async fn missing(service: &Service, id: CampaignId, what: &str) -> Result<Refusal, Refusal> {
    let campaign = service.storage.campaign(id).await?;
    let Some(campaign) = campaign else {
        return Ok(no_such_campaign(id));
    };
    Ok(Refusal::not_found(match campaign.problem {
        Some(problem) => format!("campaign {id} has no {what}: {problem}"),
        None => format!("campaign {id} has no {what} yet; it is being prepared, ask again shortly"),
    }))
}

pub fn campaign_number(path: Result<Path<u64>, PathRejection>) -> Result<CampaignId, Refusal> {
    numbers(path).map(|Path(id)| CampaignId(id))
}

pub fn version(query: Result<Query<Version>, QueryRejection>) -> Result<Option<u32>, Refusal> {
    match query {
        Ok(Query(query)) => Ok(query.version),
        Err(_) => Err(Refusal::bad_request(
            "the version of a sketch is a whole number: ?version=3",
        )),
    }
}

fn numbers<T>(path: Result<Path<T>, PathRejection>) -> Result<Path<T>, Refusal> {
    path.map_err(|_| {
        Refusal::bad_request("campaigns and iterations are named by whole numbers, as in /1/2")
    })
}

fn no_such_campaign(id: CampaignId) -> Refusal {
    Refusal::not_found(format!(
        "there is no campaign {id}; /api/v1/campaigns lists those there are"
    ))
}

fn no_such_variant(variant: VariantRef) -> Refusal {
    Refusal::not_found(format!(
        "campaign {} has no tracked build of iteration {}, plan {}; ask for an assignment first",
        variant.campaign, variant.iteration, variant.plan
    ))
}

fn check_id(what: &str, id: &str) -> Result<(), Refusal> {
    if id.is_empty() || id.len() > LONGEST_ID {
        return Err(Refusal::bad_request(format!(
            "the {what} has {} bytes; it must have 1 to {LONGEST_ID}",
            id.len()
        )));
    }
    Ok(())
}

async fn known_build(service: &Arc<Service>, build: &BuildId) -> Result<(), Refusal> {
    let known = |service: &Service| {
        let registered = service.registered.lock();
        registered
            .unwrap_or_else(PoisonError::into_inner)
            .contains(build)
    };
    if known(service) {
        return Ok(());
    }
    let (asked, theirs) = (Arc::clone(service), build.clone());
    tokio::task::spawn_blocking(move || asked.workshop.program_name(&theirs)).await??;
    let registered = service.registered.lock();
    registered
        .unwrap_or_else(PoisonError::into_inner)
        .insert(build.clone());
    Ok(())
}

async fn known_variant(
    service: &Service,
    build: &BuildId,
    variant: VariantRef,
) -> Result<(), Refusal> {
    if service.storage.iteration(variant).await?.is_none() {
        return Err(no_such_variant(variant));
    }
    match service.storage.campaign(variant.campaign).await? {
        Some(campaign) if campaign.build == *build => Ok(()),
        _ => Err(Refusal::bad_request(format!(
            "the run says it is of build {build}, but campaign {} is of another build",
            variant.campaign
        ))),
    }
}

/// Reads a document. One of another format version is refused as such, even if
/// its fields cannot be read.
fn parsed<T: DeserializeOwned>(
    what: &'static str,
    body: Result<Bytes, BytesRejection>,
) -> Result<T, Refusal> {
    let body = body.map_err(|rejection| match rejection.status() {
        StatusCode::PAYLOAD_TOO_LARGE => Refusal::new(
            StatusCode::PAYLOAD_TOO_LARGE,
            format!(
                "the {what} is larger than the {} MiB that are accepted",
                LARGEST_BODY >> 20
            ),
        ),
        status => Refusal::new(
            status,
            format!("the {what} did not arrive whole; send it again"),
        ),
    })?;
    #[derive(Deserialize)]
    struct Versioned {
        #[serde(default)]
        schema: Schema,
    }
    serde_json::from_slice(&body).map_err(|error| {
        let versioned = serde_json::from_slice::<Versioned>(&body);
        match versioned.map(|v| v.schema.check(what)) {
            Ok(Err(unknown)) => Refusal::bad_request(unknown.to_string()),
            Ok(Ok(())) | Err(_) => {
                Refusal::bad_request(format!("the body is not a readable {what}: {error}"))
            }
        }
    })
}
