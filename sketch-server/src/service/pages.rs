//! The web pages: the list of failures, and a failure's sketch.
//!
//! The viewer makes them; here they only get their headers. Pages hold words
//! that came from programs, so the policy that the viewer states with them
//! forbids all scripts, and nothing may frame or cache them.

use super::api::{Shared, Version, campaign_number, find_sketch, find_summary, summaries, version};
use super::http_error::Refusal;
use axum::extract::rejection::{PathRejection, QueryRejection};
use axum::extract::{Path, Query, State};
use axum::http::header;
use axum::response::{IntoResponse, Response};

pub async fn failures(State(service): Shared) -> Result<Response, Refusal> {
    Ok(page(viewer::failures_page(&summaries(&service).await?)))
}

pub async fn sketch(
    State(service): Shared,
    path: Result<Path<u64>, PathRejection>,
    query: Result<Query<Version>, QueryRejection>,
) -> Result<Response, Refusal> {
    let id = campaign_number(path)?;
    let sketch = find_sketch(&service, id, version(query)?).await?;
    let latest = find_sketch(&service, id, None).await?.version;
    let versions: Vec<u32> = (1..=latest).collect();
    let campaign = find_summary(&service, id).await?;
    let view = viewer::SketchView {
        campaign: &campaign,
        versions: &versions,
        unfolded: false,
    };
    Ok(page(viewer::sketch_page(&sketch, view)))
}

fn page(html: String) -> Response {
    let headers = [
        (header::CONTENT_TYPE, "text/html; charset=utf-8"),
        (
            header::CONTENT_SECURITY_POLICY,
            viewer::CONTENT_SECURITY_POLICY,
        ),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::X_FRAME_OPTIONS, "DENY"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::CACHE_CONTROL, "no-store"),
    ];
    (headers, html).into_response()
}
