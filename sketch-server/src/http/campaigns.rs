//! What developers read: failures and their sketches, builds, agents; as JSON.

use super::extract::{Named, Version};
use super::pages::builds_with_counts;
use super::refusal::Refusal;
use super::routes::{Shared, find_sketch, find_summary, missing, summaries};
use axum::Json;
use axum::extract::State;
use serde::Serialize;
use sketch_model::{
    AgentId, BuildId, CampaignId, CampaignSummary, Capabilities, FailureSketch, Slice, VariantRef,
};

/// All failures that are known, each with its diagnosis at a glance, oldest first.
#[utoipa::path(get, path = "/api/v1/campaigns", tag = "failures", responses((status = 200, body = Vec<CampaignSummary>)))]
pub async fn all(State(service): Shared) -> Result<Json<Vec<CampaignSummary>>, Refusal> {
    Ok(Json(summaries(&service).await?))
}

/// One diagnosis at a glance.
#[utoipa::path(get, path = "/api/v1/campaigns/{id}", tag = "failures", params(("id" = u64, Path, description = "The campaign's number")), responses((status = 200, body = CampaignSummary)))]
pub async fn one(
    State(service): Shared,
    Named(id): Named<CampaignId>,
) -> Result<Json<CampaignSummary>, Refusal> {
    Ok(Json(find_summary(&service, id).await?))
}

/// A version of the failure's sketch.
#[utoipa::path(get, path = "/api/v1/campaigns/{id}/sketch", tag = "failures", params(("id" = u64, Path, description = "The campaign's number"), Version), responses((status = 200, body = Object)))]
pub async fn sketch(
    State(service): Shared,
    Named(id): Named<CampaignId>,
    Version { version }: Version,
) -> Result<Json<FailureSketch>, Refusal> {
    Ok(Json(find_sketch(&service, id, version).await?))
}

/// The statements that can have led to the failure.
#[utoipa::path(get, path = "/api/v1/campaigns/{id}/slice", tag = "failures", params(("id" = u64, Path, description = "The campaign's number")), responses((status = 200, body = Object)))]
pub async fn slice(
    State(service): Shared,
    Named(id): Named<CampaignId>,
) -> Result<Json<Slice>, Refusal> {
    match service.storage.slice(id).await? {
        Some(slice) => Ok(Json(slice)),
        None => Err(missing(&service, id, "slice").await?),
    }
}

/// A build that is registered.
#[derive(Serialize, utoipa::ToSchema)]
pub struct BuildListed {
    pub build: BuildId,
    pub program: String,
    pub modules: u64,
    /// Modules whose bitcode is proven to be the program's.
    pub trackable: u64,
    pub runs: u64,
    pub failures: u64,
    /// Campaigns about it, by number.
    pub campaigns: Vec<u64>,
}

/// The registered builds.
#[utoipa::path(get, path = "/api/v1/builds", tag = "failures", responses((status = 200, body = Vec<BuildListed>)))]
pub async fn builds(State(service): Shared) -> Result<Json<Vec<BuildListed>>, Refusal> {
    let builds = builds_with_counts(&service).await?;
    let listed = builds.into_iter().map(|b| BuildListed {
        build: b.build,
        program: b.program,
        modules: b.modules,
        trackable: b.trackable,
        runs: b.runs,
        failures: b.failures,
        campaigns: b.campaigns,
    });
    Ok(Json(listed.collect()))
}

/// An agent that this server has heard of.
#[derive(Serialize, utoipa::ToSchema)]
pub struct AgentListed {
    pub agent: AgentId,
    #[serde(rename = "tier")]
    pub capabilities: Capabilities,
    /// What it last ran or asked about.
    pub build: BuildId,
    /// The tracked build that it was last given.
    pub assigned: Option<VariantRef>,
    /// When it was first and last heard of, in seconds since 1970.
    pub first: u64,
    pub last: u64,
    pub runs: u64,
    pub failures: u64,
    /// Which secret disguised the values of its last run, by a fingerprint, if one did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub privacy_key: Option<String>,
}

/// The agents heard of since the server started.
#[utoipa::path(get, path = "/api/v1/agents", tag = "failures", responses((status = 200, body = Vec<AgentListed>)))]
pub async fn agents(State(service): Shared) -> Json<Vec<AgentListed>> {
    let (agents, _) = service.fleet.listed();
    let listed = agents.into_iter().map(|a| AgentListed {
        agent: a.agent,
        capabilities: a.capabilities,
        build: a.build,
        assigned: a.assigned,
        first: a.first,
        last: a.last,
        runs: a.untracked.runs + a.tracked.runs,
        failures: a.untracked.failures + a.tracked.failures,
        privacy_key: a.privacy_key,
    });
    Json(listed.collect())
}
