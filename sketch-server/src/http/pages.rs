//! The web pages.
//!
//! The viewer makes them from values; here the values are gathered and the pages
//! get their headers. Pages hold words that came from programs, so the policy
//! that the viewer states with them forbids every script but our own file, and
//! nothing may frame or cache them.

use super::extract::{Named, Version};
use super::refusal::Refusal;
use super::routes::{Service, Shared, find_sketch, find_summary, missing, summaries};
use super::run_view::{self, Recorded};
use crate::storage::{Arrival, IterationRecord};
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::http::header;
use axum::response::{IntoResponse, Response};
use build_store::{BuildManifest, ModuleStatus};
use serde::Deserialize;
use sketch_model::{CampaignId, CampaignSummary, FailureSketch, RunId, Slice, VariantRef};
use std::sync::Arc;

/// Versions that the progress page compares.
const VERSIONS_LISTED: u32 = 40;
/// Runs of an iteration among which the two to compare are looked for.
const RUNS_SEARCHED: usize = 2_000;

/// All failures.
#[utoipa::path(get, path = "/", tag = "pages", responses((status = 200, description = "A page", content_type = "text/html")))]
pub async fn failures(State(service): Shared) -> Result<Response, Refusal> {
    Ok(page(viewer::failures_page(&summaries(&service).await?)))
}

/// How the reader wants the sketch to be shown.
#[derive(Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
pub struct Shown {
    /// Whether repeated steps are shown one by one.
    unfolded: Option<bool>,
}

/// A failure sketch.
#[utoipa::path(get, path = "/campaigns/{id}", tag = "pages", params(("id" = u64, Path, description = "The campaign's number"), Version, Shown), responses((status = 200, description = "A page", content_type = "text/html")))]
pub async fn sketch(
    State(service): Shared,
    Named(id): Named<CampaignId>,
    Version { version }: Version,
    shown: Result<Query<Shown>, QueryRejection>,
) -> Result<Response, Refusal> {
    let sketch = find_sketch(&service, id, version).await?;
    let campaign = find_summary(&service, id).await?;
    let latest = campaign.sketch_version.unwrap_or(sketch.version);
    let versions: Vec<u32> = (1..=latest).collect();
    let view = viewer::SketchView {
        campaign: &campaign,
        versions: &versions,
        unfolded: shown.is_ok_and(|Query(s)| s.unfolded == Some(true)),
    };
    Ok(page(viewer::sketch_page(&sketch, view)))
}

/// How far a diagnosis is.
#[utoipa::path(get, path = "/campaigns/{id}/progress", tag = "pages", params(("id" = u64, Path, description = "The campaign's number")), responses((status = 200, description = "A page", content_type = "text/html")))]
pub async fn progress(
    State(service): Shared,
    Named(id): Named<CampaignId>,
) -> Result<Response, Refusal> {
    let campaign = find_summary(&service, id).await?;
    let latest = campaign.sketch_version.unwrap_or(0);
    let left_out = latest.saturating_sub(VERSIONS_LISTED);
    let mut sketches = Vec::new();
    for version in left_out + 1..=latest {
        sketches.extend(service.storage.sketch(campaign.id, Some(version)).await?);
    }
    Ok(page(viewer::progress_page(&campaign, &sketches, left_out)))
}

/// The slice of a failure.
#[utoipa::path(get, path = "/campaigns/{id}/slice", tag = "pages", params(("id" = u64, Path, description = "The campaign's number")), responses((status = 200, description = "A page", content_type = "text/html")))]
pub async fn slice(
    State(service): Shared,
    Named(id): Named<CampaignId>,
) -> Result<Response, Refusal> {
    let (campaign, slice, sketch) = sliced(&service, id).await?;
    Ok(page(viewer::slice_page(&campaign, &slice, sketch.as_ref())))
}

#[derive(Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
pub struct File {
    /// The file, as the slice names it.
    file: Option<String>,
}

/// A source file of the slice; without a name, that of the failing statement.
#[utoipa::path(get, path = "/campaigns/{id}/source", tag = "pages", params(("id" = u64, Path, description = "The campaign's number"), File), responses((status = 200, description = "A page", content_type = "text/html")))]
pub async fn source(
    State(service): Shared,
    Named(id): Named<CampaignId>,
    query: Result<Query<File>, QueryRejection>,
) -> Result<Response, Refusal> {
    let (campaign, slice, sketch) = sliced(&service, id).await?;
    let asked = query.ok().and_then(|Query(q)| q.file);
    let failing = slice.failing().map(|e| e.statement.location.file.clone());
    let file = asked.or(failing).unwrap_or_default();
    let tools = Arc::clone(&service.builds);
    let (build, name) = (campaign.build.clone(), file.clone());
    let text = tokio::task::spawn_blocking(move || tools.source(&build, &name)).await??;
    Ok(page(viewer::source_page(
        &campaign,
        &slice,
        sketch.as_ref(),
        &file,
        text.as_deref(),
    )))
}

/// A failing and a successful run side by side.
#[utoipa::path(get, path = "/campaigns/{id}/runs", tag = "pages", params(("id" = u64, Path, description = "The campaign's number")), responses((status = 200, description = "A page", content_type = "text/html")))]
pub async fn runs(
    State(service): Shared,
    Named(id): Named<CampaignId>,
) -> Result<Response, Refusal> {
    let (campaign, slice, sketch) = sliced(&service, id).await?;
    let drawn = sketch.as_ref().and_then(|s| s.provenance.drawn_run.clone());
    let shown = match tracked_build(&service, &campaign).await? {
        Some(iteration) => compared(&service, &campaign, slice, iteration, drawn).await?,
        None => viewer::SideBySide::default(),
    };
    Ok(page(viewer::runs_page(&campaign, &shown, sketch.as_ref())))
}

/// The agents.
#[utoipa::path(get, path = "/fleet", tag = "pages", responses((status = 200, description = "A page", content_type = "text/html")))]
pub async fn fleet(State(service): Shared) -> Response {
    let (agents, forgotten) = service.fleet.listed();
    page(viewer::fleet_page(&agents, forgotten))
}

/// The registered builds.
#[utoipa::path(get, path = "/builds", tag = "pages", responses((status = 200, description = "A page", content_type = "text/html")))]
pub async fn builds(State(service): Shared) -> Result<Response, Refusal> {
    Ok(page(viewer::builds_page(
        &builds_with_counts(&service).await?,
    )))
}

/// The registered builds with what was seen of them.
pub async fn builds_with_counts(service: &Service) -> Result<Vec<viewer::BuildSeen>, Refusal> {
    let tools = Arc::clone(&service.builds);
    let manifests = tokio::task::spawn_blocking(move || tools.manifests()).await??;
    let mut builds: Vec<viewer::BuildSeen> = manifests.iter().map(build_seen).collect();
    for build in &mut builds {
        let counts = service.storage.build_counts(&build.build).await?;
        (build.runs, build.failures) = (counts.runs, counts.failures);
        let campaigns = service.storage.campaigns_of(&build.build).await?;
        build.campaigns = campaigns.iter().map(|c| c.id().0).collect();
    }
    Ok(builds)
}

/// A registered build as the page lists it, before anything is known of its runs.
fn build_seen(manifest: &BuildManifest) -> viewer::BuildSeen {
    let modules = manifest.modules.iter().filter_map(|m| match &m.status {
        ModuleStatus::Trackable => None,
        ModuleStatus::Untrackable { reason } => Some(format!("{}: {reason}", m.source)),
    });
    let foreign = manifest.foreign_code.iter().map(|f| {
        let origin = f.origin.as_deref().unwrap_or("code of unknown origin");
        format!("{origin} ({} functions): {}", f.function_count, f.reason)
    });
    viewer::BuildSeen {
        build: manifest.build_id.clone(),
        program: manifest.program.clone(),
        path: manifest.original_path.display().to_string(),
        modules: manifest.modules.len() as u64,
        trackable: manifest.trackable_modules() as u64,
        functions: manifest.modules.iter().map(|m| m.functions as u64).sum(),
        sources: manifest.sources.len() as u64,
        without_sandbox: manifest.without_sandbox,
        untrackable: modules.chain(foreign).collect(),
        runs: 0,
        failures: 0,
        campaigns: Vec::new(),
    }
}

/// The script of the pages.
#[utoipa::path(get, path = "/assets/page.js", tag = "pages", responses((status = 200, description = "A script", content_type = "text/javascript")))]
pub async fn script() -> Response {
    let headers = [
        (header::CONTENT_TYPE, "text/javascript; charset=utf-8"),
        (header::CACHE_CONTROL, "no-cache"),
    ];
    (headers, viewer::SCRIPT).into_response()
}

/// A campaign with its slice and, if there is one, its latest sketch.
async fn sliced(
    service: &Service,
    id: CampaignId,
) -> Result<(CampaignSummary, Slice, Option<FailureSketch>), Refusal> {
    let campaign = find_summary(service, id).await?;
    let Some(slice) = service.storage.slice(id).await? else {
        return Err(missing(service, id, "slice").await?);
    };
    Ok((campaign, slice, service.storage.sketch(id, None).await?))
}

/// The tracked build of the current iteration, or of the one before while the
/// next is being made.
async fn tracked_build(
    service: &Service,
    campaign: &CampaignSummary,
) -> Result<Option<IterationRecord>, Refusal> {
    for iteration in [campaign.iteration, campaign.iteration.saturating_sub(1)] {
        let variant = VariantRef {
            campaign: campaign.id,
            iteration,
            plan: 0,
        };
        let record = service.storage.iteration(variant).await?;
        if record.is_some() {
            return Ok(record);
        }
    }
    Ok(None)
}

/// The drawn failing run (or the latest) beside the latest successful one.
async fn compared(
    service: &Service,
    campaign: &CampaignSummary,
    slice: Slice,
    iteration: IterationRecord,
    drawn: Option<RunId>,
) -> Result<viewer::SideBySide, Refusal> {
    let (mut failing, mut successful) = (None, None);
    let mut after = Arrival(0);
    for _ in 0..RUNS_SEARCHED {
        let next = service.storage.next_counted(iteration.variant, after);
        let Some(run) = next.await? else { break };
        after = run.arrival;
        if !run.record.failed() {
            successful = Some(run.record);
        } else if failing.as_ref().map(|r: &sketch_model::RunRecord| &r.id) != drawn.as_ref() {
            failing = Some(run.record);
        }
    }
    let (tools, blobs) = (Arc::clone(&service.builds), Arc::clone(&service.blobs));
    let build = campaign.build.clone();
    let shown = tokio::task::spawn_blocking(move || {
        let tracked = blobs.get(&iteration.full)?;
        let code = tools.address_map(&build, Some(&tracked))?;
        let recorded = |record: Option<sketch_model::RunRecord>| -> Option<Recorded> {
            let record = record?;
            let run = diagnosis::decode(&record, &iteration.plan, &code)?;
            Some((record, run))
        };
        Ok::<_, Refusal>(run_view::side_by_side(
            iteration.variant.iteration,
            &slice,
            recorded(failing).as_ref(),
            recorded(successful).as_ref(),
            |id| tools.statement(&build, id),
        ))
    });
    shown.await?
}

/// A page with the headers that every page has.
pub fn page(html: String) -> Response {
    let headers = [
        (header::CONTENT_TYPE, "text/html; charset=utf-8"),
        (
            header::CONTENT_SECURITY_POLICY,
            viewer::CONTENT_SECURITY_POLICY,
        ),
        (header::X_FRAME_OPTIONS, "DENY"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::CACHE_CONTROL, "no-store"),
    ];
    (headers, html).into_response()
}
