//! Sketches as files: `/campaigns/{id}/export/{format}`.
//!
//! What is exported holds words from programs. It is sent as a download, under a
//! policy that lets nothing in it act should a browser show it all the same.

use super::extract::{Named, Version};
use super::refusal::Refusal;
use super::routes::{Shared, find_sketch};
use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use sketch_model::{CampaignId, FailureSketch};

/// Columns of a text export.
const TEXT_WIDTH: usize = 120;

/// A sketch as a file: html, svg, text, ansi, markdown, json or callgrind.
#[utoipa::path(get, path = "/campaigns/{id}/export/{format}", tag = "failures",
    params(("id" = u64, Path, description = "The campaign's number"), ("format" = String, Path, description = "html, svg, text, ansi, markdown, json or callgrind"), Version),
    responses((status = 200, description = "The sketch, as a download")))]
pub async fn export(
    State(service): Shared,
    Named((id, format)): Named<(CampaignId, String)>,
    Version { version }: Version,
) -> Result<Response, Refusal> {
    let sketch = find_sketch(&service, id, version).await?;
    let Some((kind, ending, text)) = rendered(&sketch, &format) else {
        return Err(Refusal::not_found(
            "a sketch is exported as html, svg, text, ansi, markdown, json or callgrind",
        ));
    };
    let name = format!(
        "attachment; filename=\"failsketch-{id}-{}.{ending}\"",
        sketch.version
    );
    let headers = [
        (header::CONTENT_TYPE, kind.to_owned()),
        (header::CONTENT_DISPOSITION, name),
        (
            header::CONTENT_SECURITY_POLICY,
            "default-src 'none'; style-src 'unsafe-inline'; img-src data:; sandbox".to_owned(),
        ),
        (header::CACHE_CONTROL, "no-store".to_owned()),
    ];
    Ok((headers, text).into_response())
}

/// Its kind, the ending of its file's name, and its text.
fn rendered(sketch: &FailureSketch, format: &str) -> Option<(&'static str, &'static str, String)> {
    const PLAIN: &str = "text/plain; charset=utf-8";
    Some(match format {
        "html" => (
            "text/html; charset=utf-8",
            "html",
            viewer::standalone(sketch),
        ),
        "svg" => ("image/svg+xml", "svg", viewer::svg(sketch)),
        "text" => (PLAIN, "txt", viewer::text(sketch, TEXT_WIDTH, false)),
        "ansi" => (PLAIN, "ansi", viewer::text(sketch, TEXT_WIDTH, true)),
        "markdown" => (
            "text/markdown; charset=utf-8",
            "md",
            viewer::markdown(sketch),
        ),
        "json" => (
            "application/json",
            "json",
            serde_json::to_string_pretty(sketch).ok()? + "\n",
        ),
        "callgrind" => (PLAIN, "callgrind", viewer::callgrind(sketch)),
        _ => return None,
    })
}
