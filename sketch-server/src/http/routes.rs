//! The HTTP API: its routes by the role that they need, and what handlers share.
//!
//! Every route is added with its description (`utoipa`), so that the OpenAPI
//! document cannot lack one, and stands in a group, so that neither the gate nor
//! the document can forget its role.

use super::admin;
use super::agents;
use super::campaigns;
use super::events;
use super::exports;
use super::health;
use super::limits::Limits;
use super::metrics::{self, Metrics};
use super::openapi;
use super::pages;
use super::refusal::Refusal;
use super::steering;
use crate::access::{Gate, Guard, guard, host_is_ours, login};
use crate::campaigns::assignment::Assigner;
use crate::campaigns::assignment_feed::Standing;
use crate::campaigns::engine::EngineHandle;
use crate::campaigns::fleet::Fleet;
use crate::storage::{Blobs, Storage};
use axum::Router;
use axum::extract::State;
use axum::http::{HeaderValue, header};
use axum::middleware::{from_fn, from_fn_with_state, map_response};
use axum::response::Response;
use build_analysis::BuildTools;
use diagnosis::campaign::Campaign;
use parking_lot::Mutex;
use server_files::Role;
use sketch_model::{BuildId, CampaignId, CampaignSummary, FailureSketch};
use std::collections::HashSet;
use std::sync::Arc;
use tokio::sync::{Semaphore, watch};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

/// What the handlers share.
pub struct Service {
    pub storage: Arc<Storage>,
    pub blobs: Arc<Blobs>,
    pub builds: Arc<dyn BuildTools>,
    pub engine: EngineHandle,
    pub assigner: Assigner,
    pub standing: Standing,
    pub public_key: String,
    /// Builds found registered; registration is never taken back.
    pub registered: Mutex<HashSet<BuildId>>,
    /// Tracked builds that runs were reported of.
    pub variants: agents::KnownVariants,
    pub fleet: Fleet,
    pub gate: Arc<Gate>,
    pub metrics: Arc<Metrics>,
    pub limits: Limits,
    /// Memory that bodies of requests may hold.
    pub uploads: Arc<Semaphore>,
    /// Pages that can be followed live at the same time.
    pub streams: Arc<Semaphore>,
    /// Becomes true when the server shuts down: open streams end.
    pub closing: watch::Receiver<bool>,
}

pub type Shared = State<Arc<Service>>;

type Routes = OpenApiRouter<Arc<Service>>;

/// All routes of the server with their description.
pub fn described(gate: &Arc<Gate>) -> (Router<Arc<Service>>, utoipa::openapi::OpenApi) {
    let behind = |routes: Routes, needed: Role| {
        let guarded = Guard {
            gate: Arc::clone(gate),
            needed,
        };
        openapi::for_role(routes, needed).route_layer(from_fn_with_state(guarded, guard))
    };
    let routes = OpenApiRouter::with_openapi(openapi::head())
        .merge(for_anyone())
        .merge(behind(for_agents(), Role::Agent))
        .merge(behind(for_developers(), Role::Developer))
        .merge(behind(for_admins(), Role::Admin));
    let (router, mut description) = routes.split_for_parts();
    openapi::complete(&mut description);
    (router, description)
}

/// The server's routes, ready to serve.
pub fn router(service: Arc<Service>) -> Router {
    let gate = Arc::clone(&service.gate);
    let (router, description) = described(&gate);
    router
        .merge(openapi::route(description))
        .fallback(nothing_here)
        .layer(from_fn(steering::same_site))
        .layer(from_fn_with_state(gate, host_is_ours))
        .layer(from_fn_with_state(Arc::clone(&service), metrics::counted))
        .layer(map_response(never_sniffed))
        .with_state(service)
}

/// No answer is taken for another kind than it says it is.
async fn never_sniffed(mut response: Response) -> Response {
    let nosniff = HeaderValue::from_static("nosniff");
    let headers = response.headers_mut();
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, nosniff);
    response
}

fn for_anyone() -> Routes {
    OpenApiRouter::default()
        .routes(routes!(health::well))
        .routes(routes!(health::live))
        .routes(routes!(health::ready))
        .routes(routes!(agents::key))
        .routes(routes!(login::login_page, login::log_in))
        .routes(routes!(login::log_out))
        .routes(routes!(pages::script))
}

fn for_agents() -> Routes {
    OpenApiRouter::default()
        .routes(routes!(agents::accept_run))
        .routes(routes!(agents::assign))
        .routes(routes!(agents::assign_one))
        .routes(routes!(agents::patch))
}

fn for_developers() -> Routes {
    OpenApiRouter::default()
        .routes(routes!(campaigns::all))
        .routes(routes!(campaigns::one))
        .routes(routes!(campaigns::sketch))
        .routes(routes!(campaigns::slice))
        .routes(routes!(campaigns::builds))
        .routes(routes!(campaigns::agents))
        .routes(routes!(events::events))
        .routes(routes!(steering::by_command))
        .routes(routes!(metrics::metrics))
        .routes(routes!(pages::failures))
        .routes(routes!(pages::fleet))
        .routes(routes!(pages::builds))
        .routes(routes!(pages::sketch))
        .routes(routes!(pages::progress))
        .routes(routes!(pages::slice))
        .routes(routes!(pages::source))
        .routes(routes!(pages::runs))
        .routes(routes!(exports::export))
        .routes(routes!(steering::by_form))
}

fn for_admins() -> Routes {
    OpenApiRouter::default()
        .routes(routes!(admin::tokens))
        .routes(routes!(admin::revoke))
}

async fn nothing_here() -> Refusal {
    Refusal::not_found(
        "there is nothing at this address; /api/openapi.json describes every address",
    )
}

/// All campaigns at a glance, oldest first.
pub async fn summaries(service: &Service) -> Result<Vec<CampaignSummary>, Refusal> {
    let mut found = Vec::new();
    for campaign in service.storage.campaigns().await? {
        found.push(summary(service, &campaign).await?);
    }
    Ok(found)
}

/// A campaign at a glance.
pub async fn summary(service: &Service, campaign: &Campaign) -> Result<CampaignSummary, Refusal> {
    let counts = service
        .storage
        .build_counts(&campaign.identity.build)
        .await?;
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
    Ok(Refusal::not_found(match campaign.state.problem() {
        Some(problem) => format!("campaign {id} has no {what}: {problem}"),
        None => format!("campaign {id} has no {what} yet; it is being prepared, ask again shortly"),
    }))
}

pub fn no_such_campaign(id: CampaignId) -> Refusal {
    Refusal::not_found(format!(
        "there is no campaign {id}; /api/v1/campaigns lists all"
    ))
}
