//! Whether the server lives and whether it can work.
//!
//! Two questions for two askers: who restarts servers asks whether this one lives,
//! which needs no storage to answer; who sends traffic asks whether it is ready,
//! which one that is ending, or cannot reach its storage, is not.

use super::refusal::Refusal;
use super::routes::Shared;
use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use serde::Serialize;

#[derive(Serialize, utoipa::ToSchema)]
pub struct Health {
    pub ok: bool,
}

/// Whether the server is up.
#[utoipa::path(get, path = "/api/v1/health", tag = "operation", responses((status = 200, body = Health)))]
pub async fn well() -> Json<Health> {
    Json(Health { ok: true })
}

/// Whether the process lives.
#[utoipa::path(get, path = "/health/live", tag = "operation", responses((status = 200, body = Health)))]
pub async fn live() -> Json<Health> {
    Json(Health { ok: true })
}

/// Whether the server can take requests: its storage answers and it is not ending.
#[utoipa::path(get, path = "/health/ready", tag = "operation", responses((status = 200, body = Health), (status = 503, description = "Not \
                                                                                                                                      ready: \
                                                                                                                                      send \
                                                                                                                                      requests \
                                                                                                                                      elsewhere", body = crate::http::refusal::Problem)))]
pub async fn ready(State(service): Shared) -> Result<Json<Health>, Refusal> {
    if *service.closing.borrow() {
        return Err(Refusal::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "the server is shutting down",
        ));
    }
    service.storage.answers().await.map_err(|error| {
        Refusal::new(
            StatusCode::SERVICE_UNAVAILABLE,
            format!("the storage does not answer: {error}"),
        )
    })?;
    Ok(Json(Health { ok: true }))
}
